-- key_next.sql: let the first waiting task of a key go, unless one is running. Uses tenure_ordering.
-- (The IN repeats the index's own condition: older planners do not see that it follows from the status. The word itself
-- is a range, because the planner may otherwise prefer the IN, and walk over all that wait.)
UPDATE tenure_tasks SET blocked = 0
WHERE seq = (
    SELECT min(seq) FROM tenure_tasks INDEXED BY tenure_ordering
    WHERE ordering_key = :key AND status IN ('pending', 'running') AND status = 'pending' AND blocked = 1
) AND NOT EXISTS (
    SELECT 1 FROM tenure_tasks INDEXED BY tenure_ordering
    WHERE ordering_key = :key AND status IN ('pending', 'running') AND status BETWEEN 'running' AND 'running'
)
