-- swap_to_open.sql: ended tasks that get another life, where the expected versions are still there.
-- They keep their place in the submit order. Answers with the ids that were changed, unless all were.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
WITH gone AS (
    DELETE FROM tenure.ended
    USING unnest(
        $1::text[], $2::integer[], $3::text[], $4::integer[], $5::text[], $6::integer[], $7::bigint[],
        $8::timestamptz[], $9::timestamptz[], $10::boolean[], $11::bytea[]
    ) AS new (id, expected, was, version, status, attempts, fence, available_at, expires_at, cancel_requested, record)
    WHERE ended.id = ANY (ARRAY[new.id]) AND ended.version = new.expected AND ended.status <> 'damaged'
    RETURNING ended.seq, ended.id, ended.queue, ended.type, ended.priority, ended.created_at, ended.ordering_key,
        new.was, new.version, new.status, new.attempts, new.fence, new.available_at, new.expires_at,
        new.cancel_requested, new.record
),
kept AS (
    INSERT INTO tenure.tasks
        (seq, id, queue, type, priority, blocked, created_at, ordering_key, version, status, attempts, fence,
         available_at, expires_at, cancel_requested, record)
    SELECT seq, id, queue, type, priority, ordering_key IS NOT NULL, created_at, ordering_key, version, status,
        attempts, fence, available_at, expires_at, cancel_requested, record
    FROM gone
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, moved.status, moved.sign * size
    FROM (SELECT queue, type, was, status, count(*) AS size FROM gone GROUP BY queue, type, was, status) AS lanes
    CROSS JOIN LATERAL (VALUES (was, -1), (status, 1)) AS moved (status, sign)
),
turned AS (
    INSERT INTO tenure.turns (ordering_key)
    SELECT DISTINCT ordering_key FROM gone WHERE ordering_key IS NOT NULL
)
SELECT CASE WHEN count(*) < cardinality($1::text[]) THEN coalesce(array_agg(id), '{}') END,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM gone
