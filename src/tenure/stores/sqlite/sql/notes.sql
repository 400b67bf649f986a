-- notes.sql: all notes of a kind.
SELECT key, value, updated_at, version FROM tenure_notes WHERE kind = ? ORDER BY key
