-- claim.sql: claimed tasks, inside the transaction that found them.
UPDATE tenure_tasks
SET status = 'running', version = new.column1, fence = new.column2, lease_expires_at = new.column3,
    worker_id = new.column4, progress = NULL, record = new.column5
FROM (VALUES (?, ?, ?, ?, ?, ?)) AS new
WHERE tenure_tasks.seq = new.column6
