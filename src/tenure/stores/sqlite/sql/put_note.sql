-- put_note.sql: write a note.
INSERT INTO tenure_notes (kind, key, version, updated_at, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE
SET version = excluded.version, updated_at = excluded.updated_at, value = excluded.value
