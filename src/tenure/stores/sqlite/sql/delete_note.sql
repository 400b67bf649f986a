-- delete_note.sql: remove a note.
DELETE FROM tenure_notes WHERE kind = ? AND key = ?
