-- prunable.sql: ended tasks of one status that have been kept long enough, oldest first. Uses tenure_ended.
SELECT seq, id,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq)),
    lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output, version
FROM tenure_tasks INDEXED BY tenure_ended
WHERE status = ? AND ended_at IS NOT NULL AND ended_at <= ?
ORDER BY ended_at LIMIT ?
