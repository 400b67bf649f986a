-- late.sql: pending tasks past their deadline, longest first. Uses tenure_deadlines.
SELECT seq, id,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq)),
    expires_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, version, ordering_key
FROM tenure_tasks INDEXED BY tenure_deadlines
WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= ?
ORDER BY expires_at, seq LIMIT ?
