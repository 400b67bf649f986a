-- swap.sql: the next version of a task, if the expected one is still there. Times that did not change are NULL here.
-- (A deadline may move, but no transition takes it away.)
UPDATE tenure_tasks
SET version = ?, status = ?, attempts = ?, fence = ?, available_at = coalesce(?, available_at), expires_at = coalesce(?, expires_at),
  lease_expires_at = ?,
    ended_at = ?, worker_id = ?, cancel_requested = ?, record = ?
WHERE id = ? AND version = ?
