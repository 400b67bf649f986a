-- count_late.sql: how many pending tasks past their deadline there are of each type, without those past it at the first moment. Uses tenure_deadlines.
SELECT type, count(*) FROM (
    SELECT type FROM tenure_tasks INDEXED BY tenure_deadlines
    WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at > coalesce(?, -9223372036854775808) AND expires_at <= ?
    LIMIT ?
) AS found GROUP BY type
