-- delete_records.sql: with the tasks whose records they are.
DELETE FROM tenure_records WHERE seq IN (SELECT value FROM json_each(?))
