-- running_since.sql: when the attempt began that has run longest, and the numbers of tasks whose records say it instead of their columns.
-- Uses tenure_leases.
SELECT min(claimed_at), json_group_array(seq) FILTER (WHERE claimed_at IS NULL)
FROM tenure_tasks INDEXED BY tenure_leases WHERE status = 'running'
