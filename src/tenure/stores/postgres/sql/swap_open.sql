-- swap_open.sql: the next versions of open tasks that stay open, where the expected ones are still there.
-- A task that goes on running keeps a longer lease and the progress that were renewed meanwhile, and a change that
-- rests on the end of a lease ($3) is made only if that lease was not renewed. Answers with the ids that were changed, unless all were.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
WITH changed AS (
    UPDATE tenure.tasks
    SET version = new.version, status = new.status, attempts = new.attempts, fence = new.fence,
        available_at = new.available_at, expires_at = new.expires_at, worker_id = new.worker_id,
        lease_expires_at = CASE new.status WHEN 'running' THEN greatest(tasks.lease_expires_at, new.lease_expires_at) END,
        claimed_at = CASE new.status WHEN 'running' THEN coalesce(tasks.claimed_at, new.claimed_at) END,
        policy_max = CASE new.status WHEN 'running' THEN tasks.policy_max END,
        progress = CASE new.status WHEN 'running' THEN tasks.progress END,
        cancel_requested = new.cancel_requested, record = new.record
    FROM unnest(
        $1::text[], $2::integer[], $3::timestamptz[], $4::text[], $5::integer[], $6::text[], $7::integer[],
        $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::timestamptz[],
        $14::boolean[], $15::bytea[]
    ) AS new (
        id, expected, unrenewed, was, version, status, attempts, fence, available_at, expires_at, worker_id,
        lease_expires_at, claimed_at, cancel_requested, record
    )
    WHERE tasks.id = ANY (ARRAY[new.id]) AND tasks.version = new.expected
        AND (new.unrenewed IS NULL OR new.unrenewed = tasks.lease_expires_at)
    RETURNING tasks.id, tasks.queue, tasks.type, tasks.ordering_key, tasks.status, new.was
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, moved.status, sum(moved.change)
    FROM changed CROSS JOIN LATERAL (VALUES (was, -1), (status, 1)) AS moved (status, change)
    WHERE was <> changed.status GROUP BY queue, type, moved.status
),
turned AS (
    INSERT INTO tenure.turns (ordering_key)
    SELECT DISTINCT ordering_key FROM changed WHERE ordering_key IS NOT NULL
)
SELECT CASE WHEN count(*) < cardinality($1::text[]) THEN coalesce(array_agg(id), '{}') END,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM changed
