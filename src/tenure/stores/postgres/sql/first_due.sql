-- first_due.sql: for each queue and type in which something is due at $1, since when it has been;
-- and a row of nothing if there are ordering keys for which a claim has yet to find out whose turn it is.
-- Jumps through tasks_runnable from one priority to the next, so it never walks over tasks.
WITH RECURSIVE waiting (queue, type) AS (
    SELECT queue, type
    FROM (
        SELECT queue, type, status, count FROM tenure.counts
        UNION ALL
        SELECT queue, type, status, change FROM tenure.count_changes
    ) AS counted
    WHERE status = 'pending'
    GROUP BY queue, type HAVING sum(count) > 0
),
lane (queue, type, priority) AS (
    SELECT queue, type, (
        SELECT priority FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked AND queue = waiting.queue AND type = waiting.type
        ORDER BY priority DESC LIMIT 1
    )
    FROM waiting
    UNION ALL
    SELECT lane.queue, lane.type, (
        SELECT priority FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked AND queue = lane.queue AND type = lane.type
            AND priority < lane.priority
        ORDER BY priority DESC LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
)
SELECT lane.queue, lane.type, min(head.available_at)
FROM lane CROSS JOIN LATERAL (
    SELECT available_at FROM tenure.tasks
    WHERE status = 'pending' AND NOT blocked
        AND queue = lane.queue AND type = lane.type AND priority = lane.priority AND available_at <= $1
    ORDER BY available_at, seq LIMIT 1
) AS head
WHERE lane.priority IS NOT NULL
GROUP BY lane.queue, lane.type
UNION ALL
SELECT NULL, NULL, NULL WHERE EXISTS (SELECT FROM tenure.turns)
