-- dump_tasks.sql: the next tasks in submit order.
SELECT seq, id, record, lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output FROM tenure_tasks WHERE seq > ? ORDER BY seq LIMIT ?
