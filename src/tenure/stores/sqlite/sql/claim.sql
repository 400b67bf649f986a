-- claim.sql: a claimed task, inside the transaction that found it.
UPDATE tenure_tasks
SET status = 'running', version = ?, fence = ?, lease_expires_at = ?, worker_id = ?, progress = NULL, record = ?
WHERE seq = ?
