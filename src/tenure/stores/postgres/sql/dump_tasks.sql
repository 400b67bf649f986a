-- dump_tasks.sql: the next tasks in submit order.
SELECT id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max, seq, ended_at,
    finished_by, output
FROM tenure.everything WHERE seq > $1::bigint ORDER BY seq LIMIT $2
