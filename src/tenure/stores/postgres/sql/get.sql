-- get.sql: tasks by their ids.
SELECT id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max, seq, ended_at,
    finished_by, output
FROM tenure.everything WHERE id = ANY($1::text[])
