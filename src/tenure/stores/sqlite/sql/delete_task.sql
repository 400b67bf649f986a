-- delete_task.sql: forget a task.
DELETE FROM tenure_tasks WHERE seq = ?
