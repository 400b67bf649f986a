-- insert_new.sql: tasks with new ids, without ordering keys or tags, in this order; answers whether they were inserted, all or none.
-- Ids sort by the time of their submit. Where none from the first ($9) to the last ($10) of these has ended, none of them has;
-- one that is open already fails the whole. What may be given once, and what is meant by nothing, is as in insert.sql.
WITH added AS (
    INSERT INTO tenure.tasks
        (id, queue, type, priority, blocked, created_at, available_at, expires_at, record, version, status, attempts, fence)
    SELECT id, coalesce(queue, ($2::text[])[1]), coalesce(type, ($3::text[])[1]), coalesce(priority, 0), false,
        coalesce(created_at, ($5::timestamptz[])[1]), coalesce(available_at, created_at, ($5::timestamptz[])[1]),
        expires_at, record, 1, 'pending', 0, 0
    FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::bytea[]
    ) WITH ORDINALITY AS new (id, queue, type, priority, created_at, available_at, expires_at, record, place)
    WHERE NOT EXISTS (SELECT FROM tenure.ended WHERE ended.id BETWEEN $9 AND $10)
    ORDER BY place
    RETURNING queue, type
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, 'pending', count(*) FROM added GROUP BY queue, type
)
SELECT count(*) > 0,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM added
