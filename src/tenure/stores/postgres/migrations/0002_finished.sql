-- A completion that the record does not know, beside the claim before it: both are added to the record when it is read.
ALTER TABLE tenure.ended
    ADD COLUMN finished_by text COLLATE "C",
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN policy_max integer,
    ADD COLUMN output bytea;

DROP VIEW tenure.everything;

CREATE VIEW tenure.everything AS
    SELECT seq, id, version, status, queue, type, attempts, created_at, available_at, ordering_key, cancel_requested,
        worker_id, lease_expires_at, claimed_at, policy_max, progress, NULL::timestamptz AS ended_at,
        NULL AS finished_by, NULL::bytea AS output, record
    FROM tenure.tasks
    UNION ALL
    SELECT seq, id, version, status, queue, type, attempts, created_at, available_at, ordering_key, cancel_requested,
        NULL, NULL, claimed_at, policy_max, NULL, ended_at, finished_by, output, record
    FROM tenure.ended;
