-- note_version.sql: the version of a note.
SELECT version FROM tenure_notes WHERE kind = ? AND key = ?
