-- count_up.sql: add to the counts of queues, types and statuses.
INSERT INTO tenure_counts (queue, type, status, count) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, type, status) DO UPDATE SET count = count + excluded.count
