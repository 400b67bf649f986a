-- get.sql: tasks by their ids.
SELECT id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max
FROM tenure.everything WHERE id = ANY($1::text[])
