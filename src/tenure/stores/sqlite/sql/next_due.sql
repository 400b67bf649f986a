-- next_due.sql: follows lane.sql: when the first task is due that is not due yet. Uses tenure_runnable.
SELECT min((
    SELECT available_at FROM tenure_tasks INDEXED BY tenure_runnable
    WHERE status = 'pending' AND blocked = 0
        AND queue = lane.queue AND type = lane.type AND priority = lane.priority AND available_at > :now
    ORDER BY available_at LIMIT 1
)) FROM lane WHERE lane.priority IS NOT NULL
