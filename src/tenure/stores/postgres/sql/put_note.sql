-- put_note.sql: write a note, if its version is the expected one (NULL: whichever it is).
-- A worker's sign of life is no news to anybody.
WITH put AS (
    INSERT INTO tenure.notes (kind, key, version, updated_at, value)
    SELECT $1::text, $2::text, 1, coalesce($4::timestamptz, statement_timestamp()), $5::bytea
    WHERE $3::integer IS NULL OR $3 = 0 OR EXISTS (SELECT FROM tenure.notes WHERE kind = $1 AND key = $2)
    ON CONFLICT (kind, key) DO UPDATE
    SET version = notes.version + 1, updated_at = excluded.updated_at, value = excluded.value
    WHERE $3 IS NULL OR notes.version = $3
    RETURNING 1
)
SELECT count(*),
    CASE WHEN count(*) > 0 AND $1 <> 'worker' AND EXISTS (SELECT FROM tenure.listeners)
        THEN pg_notify('tenure.news', '') END
FROM put
