-- running_since.sql: when the attempt began that has run longest. Uses tasks_leases.
SELECT min(claimed_at) FROM tenure.tasks WHERE status = 'running'
