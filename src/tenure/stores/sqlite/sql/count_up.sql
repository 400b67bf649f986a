-- count_up.sql: add to the count of one queue, type and status.
INSERT INTO tenure_counts (queue, type, status, count) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, type, status) DO UPDATE SET count = count + excluded.count
