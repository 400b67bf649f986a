-- counts.sql: how many tasks of each queue, type and status there are.
SELECT queue, type, status, sum(count)::bigint
FROM (
    SELECT queue, type, status, count FROM tenure.counts
    UNION ALL
    SELECT queue, type, status, change FROM tenure.count_changes
) AS counted
WHERE status <> 'damaged'
GROUP BY queue, type, status HAVING sum(count) > 0
