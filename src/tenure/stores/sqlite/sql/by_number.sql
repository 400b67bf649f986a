-- by_number.sql: one task by its number, and its ordering key.
SELECT seq, id,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq)),
    lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output, version, ordering_key
FROM tenure_tasks WHERE seq = ?
