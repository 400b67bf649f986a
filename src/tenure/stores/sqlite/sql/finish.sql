-- finish.sql: completed tasks whose records know neither of their claim nor of its end, and that returned nothing.
-- Their numbers are looked up first: a set of numbers is quicker to build and to walk than one of ids.
UPDATE tenure_tasks
SET status = 'completed', version = version + 1, ended_at = ?, lease_expires_at = NULL
WHERE version = ? AND status = 'running' AND claimed_at IS NOT NULL
    AND seq IN (SELECT task.seq FROM json_each(?) AS given CROSS JOIN tenure_tasks AS task ON task.id = given.value)
