-- swap_to_ended.sql: open tasks that end, where the expected versions are still there: they move to tenure.ended.
-- A change that rests on the end of a lease ($6, NULL when none does) is made only if that lease was not renewed.
-- What an ending never changes is not sent. Answers with the ids that were changed, unless all were.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
WITH gone AS (
    DELETE FROM tenure.tasks
    USING unnest(
        $1::text[], $2::integer[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::boolean[],
        $8::bytea[]
    ) AS new (id, expected, status, attempts, ended_at, unrenewed, cancel_requested, record)
    WHERE tasks.id = ANY (ARRAY[new.id]) AND tasks.version = new.expected
        AND (new.unrenewed IS NULL OR new.unrenewed = tasks.lease_expires_at)
    RETURNING tasks.seq, tasks.id, tasks.queue, tasks.type, tasks.priority, tasks.created_at, tasks.ordering_key,
        tasks.fence, tasks.available_at, tasks.status AS was, tasks.version + 1 AS version,
        new.cancel_requested, new.status, new.attempts, new.ended_at, new.record
),
kept AS (
    INSERT INTO tenure.ended
        (seq, id, queue, type, priority, created_at, ordering_key, version, status, attempts, fence, available_at,
         ended_at, cancel_requested, record)
    SELECT seq, id, queue, type, priority, created_at, ordering_key, version, status, attempts, fence, available_at,
        ended_at, cancel_requested, record
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
