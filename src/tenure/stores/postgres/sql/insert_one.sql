-- insert_one.sql: like insert_new.sql, for one task: a lone submit makes no arrays that the server would have to walk over.
WITH added AS (
    INSERT INTO tenure.tasks
        (id, queue, type, priority, blocked, created_at, available_at, expires_at, record, version, status, attempts, fence)
    SELECT $1::text, $2::text, $3::text, $4::integer, false, $5::timestamptz, $6::timestamptz, $7::timestamptz, $8::bytea,
        1, 'pending', 0, 0
    WHERE NOT EXISTS (SELECT FROM tenure.ended WHERE ended.id = $1::text)
    RETURNING queue, type
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, 'pending', 1 FROM added
)
SELECT count(*) > 0,
    CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM added
