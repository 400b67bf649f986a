-- renew.sql: longer leases for claims that are still the newest of their task; never shorter ones.
UPDATE tenure_tasks
SET lease_expires_at = max(lease_expires_at, new.column1), progress = coalesce(new.column2, progress)
FROM (VALUES (?, ?, ?, ?)) AS new
WHERE tenure_tasks.id = new.column3 AND tenure_tasks.fence = new.column4 AND tenure_tasks.status = 'running'
