-- prunable.sql: ended tasks of one status that have been kept long enough, oldest first. Uses tenure_ended.
SELECT seq, id, record, lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output
FROM tenure_tasks INDEXED BY tenure_ended
WHERE status = ? AND ended_at IS NOT NULL AND ended_at <= ?
ORDER BY ended_at LIMIT ?
