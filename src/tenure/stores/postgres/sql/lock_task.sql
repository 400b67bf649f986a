-- lock_task.sql: one open task, held still until the transaction ends.
SELECT id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max
FROM tenure.tasks WHERE id = $1 FOR UPDATE
