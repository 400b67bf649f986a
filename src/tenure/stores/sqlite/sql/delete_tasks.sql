-- delete_tasks.sql: forget tasks.
DELETE FROM tenure_tasks WHERE seq IN (SELECT value FROM json_each(?))
