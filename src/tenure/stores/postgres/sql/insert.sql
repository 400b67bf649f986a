-- insert.sql: new tasks, in this order, where their ids are not there yet; answers with the ids that were new, unless all were.
-- A queue, type or time of submit that all of them share may be given once. Without a priority it is 0, and without a time the task is due when it is submitted.
-- A task with an ordering key waits until its key has been given a turn. $10 and $11 are ids and tags side by side.
-- Each id is looked up among the ended (a subquery), whatever the server believes to be there: see decision 032.
WITH new AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::bytea[]
    ) WITH ORDINALITY AS new (
        id, queue, type, priority, created_at, available_at, expires_at, ordering_key, record, place
    )
),
added AS (
    INSERT INTO tenure.tasks
        (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
         version, status, attempts, fence)
    SELECT id, coalesce(queue, ($2::text[])[1]), coalesce(type, ($3::text[])[1]), coalesce(priority, 0),
        ordering_key IS NOT NULL, coalesce(created_at, ($5::timestamptz[])[1]),
        coalesce(available_at, created_at, ($5::timestamptz[])[1]), expires_at, ordering_key, record, 1, 'pending', 0, 0
    FROM new WHERE (SELECT seq FROM tenure.ended WHERE ended.id = new.id) IS NULL
    ORDER BY place
    ON CONFLICT (id) DO NOTHING
    RETURNING seq, id, queue, type, ordering_key
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, 'pending', count(*) FROM added GROUP BY queue, type
),
turned AS (
    INSERT INTO tenure.turns (ordering_key)
    SELECT DISTINCT ordering_key FROM added WHERE ordering_key IS NOT NULL
),
tagged AS (
    INSERT INTO tenure.tags (tag, seq)
    SELECT tag, seq FROM unnest($10::text[], $11::text[]) AS tagging (id, tag) JOIN added USING (id)
)
SELECT CASE WHEN count(*) < cardinality($1::text[]) THEN coalesce(array_agg(id), '{}') END,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM added
