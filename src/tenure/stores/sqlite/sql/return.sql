-- return.sql: like finish.sql, for tasks whose handlers returned something.
UPDATE tenure_tasks
SET status = 'completed', version = version + 1, ended_at = new.column3, lease_expires_at = NULL, output = new.column4
FROM (VALUES (?, ?, ?, ?)) AS new
WHERE tenure_tasks.id = new.column1 AND tenure_tasks.version = new.column2
    AND status = 'running' AND claimed_at IS NOT NULL
