-- next_in_lane.sql: when the first task of a lane is due that is not due yet. Uses tenure_runnable.
SELECT available_at FROM tenure_tasks INDEXED BY tenure_runnable
WHERE status = 'pending' AND blocked = 0
    AND queue = ? AND type = ? AND priority = ? AND available_at > ?
ORDER BY available_at LIMIT 1
