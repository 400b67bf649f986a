-- get.sql: one task by its id.
SELECT seq, id, record, lease_expires_at, progress FROM tenure_tasks WHERE id = ?
