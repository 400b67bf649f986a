-- unlisten.sql: somebody has stopped listening.
DELETE FROM tenure.listeners WHERE listener = $1
