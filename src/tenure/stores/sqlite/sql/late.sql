-- late.sql: pending tasks past their deadline, longest first. Uses tenure_deadlines.
SELECT seq, id, record, expires_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM tenure_tasks INDEXED BY tenure_deadlines
WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= ?
ORDER BY expires_at, seq LIMIT ?
