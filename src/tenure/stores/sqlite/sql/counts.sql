-- counts.sql: how many tasks of each queue, type and status there are.
SELECT queue, type, status, count FROM tenure_counts
WHERE count > 0 AND status <> 'damaged' ORDER BY queue, type, status
