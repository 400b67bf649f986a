-- notes.sql: all notes of a kind.
SELECT key, value, updated_at, version FROM tenure.notes WHERE kind = $1
