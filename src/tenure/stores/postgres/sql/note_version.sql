-- note_version.sql: the version of a note.
SELECT version FROM tenure.notes WHERE kind = $1 AND key = $2
