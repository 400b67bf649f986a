-- get.sql: one task by its id.
SELECT seq, id, record, lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output FROM tenure_tasks WHERE id = ?
