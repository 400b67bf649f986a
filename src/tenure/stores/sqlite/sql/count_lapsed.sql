-- count_lapsed.sql: how many running tasks whose lease has run out there are of each type, without those past it at the first moment. Uses tenure_leases.
SELECT type, count(*) FROM (
    SELECT type FROM tenure_tasks INDEXED BY tenure_leases
    WHERE status = 'running' AND lease_expires_at > coalesce(?, -9223372036854775808) AND lease_expires_at <= ?
    LIMIT ?
) AS found GROUP BY type
