-- delete_note.sql: remove a note, if its version is the expected one (NULL: whichever it is).
WITH gone AS (
    DELETE FROM tenure.notes WHERE kind = $1 AND key = $2 AND ($3::integer IS NULL OR version = $3) RETURNING 1
)
SELECT count(*), CASE WHEN count(*) > 0 AND EXISTS (SELECT FROM tenure.listeners) THEN pg_notify('tenure.news', '') END
FROM gone
