-- ended_version.sql: the row of a task, if it has ended and this is still its version.
SELECT seq FROM tenure_tasks WHERE id = ? AND version = ? AND ended_at IS NOT NULL
