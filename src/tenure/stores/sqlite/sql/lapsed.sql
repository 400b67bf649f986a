-- lapsed.sql: running tasks whose lease has run out, longest first. Uses tenure_leases.
SELECT seq, id,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq)),
    lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output, version, ordering_key
FROM tenure_tasks INDEXED BY tenure_leases
WHERE status = 'running' AND lease_expires_at <= ?
ORDER BY lease_expires_at, seq LIMIT ?
