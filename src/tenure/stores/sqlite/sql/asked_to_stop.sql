-- asked_to_stop.sql: which of these running tasks someone has asked to stop, in one row.
SELECT json_group_array(id) FROM tenure_tasks
WHERE cancel_requested AND status = 'running' AND id IN (SELECT value FROM json_each(?))
