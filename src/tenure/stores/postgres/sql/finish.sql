-- finish.sql: claimed tasks that complete, where the expected versions are still there: they move to tenure.ended.
-- Their records stay as they are, and know nothing of it. A version or an end that all share may be given once.
-- Answers with the ids that were changed, unless all were.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
WITH gone AS (
    DELETE FROM tenure.tasks
    USING unnest($1::text[], $2::integer[], $3::timestamptz[], $4::bytea[]) AS new (id, expected, ended_at, output)
    WHERE tasks.id = ANY (ARRAY[new.id]) AND tasks.version = coalesce(new.expected, ($2::integer[])[1])
    RETURNING tasks.seq, tasks.id, tasks.queue, tasks.type, tasks.priority, tasks.created_at, tasks.ordering_key,
        tasks.version, tasks.attempts, tasks.fence, tasks.available_at, tasks.cancel_requested, tasks.record,
        tasks.worker_id, tasks.claimed_at, tasks.policy_max,
        coalesce(new.ended_at, ($3::timestamptz[])[1]) AS ended_at, new.output
),
kept AS (
    INSERT INTO tenure.ended
        (seq, id, queue, type, priority, created_at, ordering_key, version, status, attempts, fence, available_at,
         ended_at, cancel_requested, record, finished_by, claimed_at, policy_max, output)
    SELECT seq, id, queue, type, priority, created_at, ordering_key, version + 1, 'completed', attempts, fence,
        available_at, ended_at, cancel_requested, record, worker_id, claimed_at, policy_max, output
    FROM gone
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, moved.status, moved.sign * size
    FROM (SELECT queue, type, count(*) AS size FROM gone GROUP BY queue, type) AS lanes,
        (VALUES ('running', -1), ('completed', 1)) AS moved (status, sign)
),
turned AS (
    INSERT INTO tenure.turns (ordering_key)
    SELECT DISTINCT ordering_key FROM gone WHERE ordering_key IS NOT NULL
)
SELECT CASE WHEN count(*) < cardinality($1::text[]) THEN coalesce(array_agg(id), '{}') END,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM gone
