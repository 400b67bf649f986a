-- due_in_lane.sql: the next due tasks of one lane, in order. Uses tenure_runnable.
SELECT available_at, seq, id, record FROM tenure_tasks INDEXED BY tenure_runnable
WHERE status = 'pending' AND blocked = 0
    AND queue = ? AND type = ? AND priority = ? AND available_at <= ?
    AND (expires_at IS NULL OR expires_at > ?)
ORDER BY available_at, seq LIMIT ?
