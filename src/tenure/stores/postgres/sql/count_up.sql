-- count_up.sql: add to the counts of queues, types and statuses.
INSERT INTO tenure.count_changes (queue, type, status, change)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
