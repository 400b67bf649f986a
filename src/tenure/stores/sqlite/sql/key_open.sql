-- key_open.sql: whether an ordering key has a task that has not ended. Uses tenure_ordering.
SELECT 1 FROM tenure_tasks INDEXED BY tenure_ordering
WHERE ordering_key = ? AND status IN ('pending', 'running') LIMIT 1
