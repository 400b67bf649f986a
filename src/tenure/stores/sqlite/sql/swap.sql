-- swap.sql: the next versions of tasks, where the expected ones are still there.
-- Times that did not change are NULL here; a deadline may move, but no transition takes it away.
-- A task that goes on running keeps a longer lease that was renewed meanwhile, and a change that
-- rests on the end of a lease (the last column) is made only if that lease was not renewed.
UPDATE tenure_tasks
SET version = new.column1, status = new.column2, attempts = new.column3, fence = new.column4,
    available_at = coalesce(new.column5, available_at), expires_at = coalesce(new.column6, expires_at),
    lease_expires_at = CASE new.column2 WHEN 'running' THEN max(lease_expires_at, new.column7) END,
    ended_at = new.column8, worker_id = new.column9, claimed_at = NULL, output = NULL, cancel_requested = new.column10, record = x''
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE tenure_tasks.id = new.column11 AND tenure_tasks.version = new.column12
    AND (new.column13 IS NULL OR new.column13 = lease_expires_at)
