-- swap_to_ended.sql: open tasks that end, where the expected versions are still there: they move to tenure.ended.
-- A change that rests on the end of a lease ($3) is made only if that lease was not renewed.
-- Answers with the ids that were changed.
WITH gone AS (
    DELETE FROM tenure.tasks
    USING unnest(
        $1::text[], $2::integer[], $3::timestamptz[], $4::text[], $5::integer[], $6::text[], $7::integer[],
        $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::boolean[], $12::bytea[]
    ) AS new (
        id, expected, unrenewed, was, version, status, attempts, fence, available_at, ended_at, cancel_requested, record
    )
    WHERE tasks.id = new.id AND tasks.version = new.expected
        AND (new.unrenewed IS NULL OR new.unrenewed = tasks.lease_expires_at)
    RETURNING tasks.seq, tasks.id, tasks.queue, tasks.type, tasks.priority, tasks.created_at, tasks.ordering_key,
        new.was, new.version, new.status, new.attempts, new.fence, new.available_at, new.ended_at,
        new.cancel_requested, new.record
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
    SELECT queue, type, moved.status, sum(moved.change)
    FROM gone CROSS JOIN LATERAL (VALUES (was, -1), (status, 1)) AS moved (status, change)
    GROUP BY queue, type, moved.status
),
turned AS (
    INSERT INTO tenure.turns (ordering_key)
    SELECT DISTINCT ordering_key FROM gone WHERE ordering_key IS NOT NULL
)
SELECT array_agg(id),
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM gone
