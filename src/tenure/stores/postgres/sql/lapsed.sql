-- lapsed.sql: running tasks whose lease has run out, longest first. Uses tasks_leases.
SELECT id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max, seq, ordering_key
FROM tenure.tasks WHERE status = 'running' AND lease_expires_at <= $1
ORDER BY lease_expires_at, seq LIMIT $2
