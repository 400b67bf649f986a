-- set_aside.sql: take a damaged record out of every index that leads to work; its bytes stay.
UPDATE tenure_tasks SET status = 'damaged', lease_expires_at = NULL, ended_at = NULL
WHERE seq = ? RETURNING queue, type, ordering_key
