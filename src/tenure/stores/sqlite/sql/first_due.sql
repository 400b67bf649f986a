-- first_due.sql: for each queue and type in which something is due at :now, since when it has been.
-- Jumps through tenure_runnable from one priority to the next, so it never walks over tasks.
WITH RECURSIVE lane (queue, type, priority) AS (
    SELECT queue, type, (
        SELECT priority FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0 AND queue = counted.queue AND type = counted.type
        ORDER BY priority DESC LIMIT 1
    )
    FROM tenure_counts AS counted WHERE status = 'pending' AND count > 0
    UNION ALL
    SELECT lane.queue, lane.type, (
        SELECT priority FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0 AND queue = lane.queue AND type = lane.type
            AND priority < lane.priority
        ORDER BY priority DESC LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
),
head (queue, type, available_at) AS (
    SELECT queue, type, (
        SELECT available_at FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0
            AND queue = lane.queue AND type = lane.type AND priority = lane.priority
        ORDER BY available_at LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
)
SELECT queue, type, min(available_at) FROM head WHERE available_at <= :now GROUP BY queue, type ORDER BY queue, type
