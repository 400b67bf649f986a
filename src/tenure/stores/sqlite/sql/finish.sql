-- finish.sql: completed tasks whose records know neither of their claim nor of its end, and that returned nothing.
UPDATE tenure_tasks
SET status = 'completed', version = version + 1, ended_at = ?, lease_expires_at = NULL
WHERE version = ? AND status = 'running' AND claimed_at IS NOT NULL AND id IN (SELECT value FROM json_each(?))
