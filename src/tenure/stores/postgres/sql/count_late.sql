-- count_late.sql: how many pending tasks past their deadline there are of each type, without those past it at the first moment. Uses tasks_deadlines.
SELECT type, count(*) FROM (
    SELECT type FROM tenure.tasks
    WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at > coalesce($1, '-infinity'::timestamptz) AND expires_at <= $2
    LIMIT $3
) AS found GROUP BY type
