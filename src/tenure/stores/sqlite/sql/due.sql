-- due.sql: follows lane.sql: the tasks that run next, in one row: their numbers, and a JSON array of their records
-- (as bytes, because a damaged record may be no text at all).
-- Takes only what is due from each lane through tenure_runnable, so tasks that cannot run now cost nothing.
, due (seq) AS (
    SELECT task.seq FROM lane JOIN tenure_tasks AS task ON task.seq IN (
        SELECT seq FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0
            AND queue = lane.queue AND type = lane.type AND priority = lane.priority
            AND available_at <= :now AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY available_at, seq LIMIT :count
    )
    WHERE lane.priority IS NOT NULL
    ORDER BY task.priority DESC, task.available_at, task.seq LIMIT :count
)
SELECT group_concat(seq), CAST('[' || group_concat(CAST(record AS TEXT)) || ']' AS BLOB)
FROM (SELECT task.seq, task.record FROM due CROSS JOIN tenure_tasks AS task ON task.seq = due.seq)
