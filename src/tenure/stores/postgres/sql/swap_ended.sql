-- swap_ended.sql: the next versions of ended tasks, where the expected ones are still there.
-- Answers with the ids that were changed, unless all were.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
WITH changed AS (
    UPDATE tenure.ended
    SET version = new.version, status = new.status, ended_at = new.ended_at, record = new.record,
        finished_by = NULL, claimed_at = NULL, policy_max = NULL, output = NULL
    FROM unnest($1::text[], $2::integer[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::bytea[])
        AS new (id, expected, was, version, status, ended_at, record)
    WHERE ended.id = ANY (ARRAY[new.id]) AND ended.version = new.expected AND ended.status <> 'damaged'
    RETURNING ended.id, ended.queue, ended.type, ended.status, new.was
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, moved.status, sum(moved.change)
    FROM changed CROSS JOIN LATERAL (VALUES (was, -1), (status, 1)) AS moved (status, change)
    WHERE was <> changed.status GROUP BY queue, type, moved.status
)
SELECT CASE WHEN count(*) < cardinality($1::text[]) THEN coalesce(array_agg(id), '{}') END,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM changed
