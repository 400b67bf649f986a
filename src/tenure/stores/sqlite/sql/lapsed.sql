-- lapsed.sql: running tasks whose lease has run out, longest first. Uses tenure_leases.
SELECT seq, id, record, lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output
FROM tenure_tasks INDEXED BY tenure_leases
WHERE status = 'running' AND lease_expires_at <= ?
ORDER BY lease_expires_at, seq LIMIT ?
