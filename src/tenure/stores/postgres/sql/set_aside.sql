-- set_aside.sql: take a damaged record out of everything that leads to work; its bytes stay.
WITH gone AS (
    DELETE FROM tenure.tasks WHERE id = $1 RETURNING *
)
INSERT INTO tenure.ended
    (seq, id, version, status, queue, type, priority, attempts, fence, created_at, available_at, ended_at,
     cancel_requested, ordering_key, record)
SELECT seq, id, version, 'damaged', queue, type, priority, attempts, fence, created_at, available_at, NULL,
    cancel_requested, ordering_key, record
FROM gone
RETURNING queue, type, ordering_key, (SELECT status FROM gone)
