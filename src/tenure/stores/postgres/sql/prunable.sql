-- prunable.sql: ended tasks of one status that have been kept long enough, oldest first. Uses ended_by_end.
SELECT id, record, version, NULL, NULL, NULL, claimed_at, policy_max, seq, ended_at, finished_by, output
FROM tenure.ended
WHERE status = $1 AND ended_at <= $2
ORDER BY ended_at, seq LIMIT $3
FOR UPDATE SKIP LOCKED
