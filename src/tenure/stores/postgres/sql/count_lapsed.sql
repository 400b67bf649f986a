-- count_lapsed.sql: how many running tasks whose lease has run out there are of each type, without those past it at the first moment. Uses tasks_leases.
SELECT type, count(*) FROM (
    SELECT type FROM tenure.tasks
    WHERE status = 'running' AND lease_expires_at > coalesce($1, '-infinity'::timestamptz) AND lease_expires_at <= $2
    LIMIT $3
) AS found GROUP BY type
