-- insert_alike.sql: like insert.sql, for tasks without an ordering key that differ in nothing but their ids, as in most bulk submits.
INSERT INTO tenure_tasks
    (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
     version, status, attempts, fence)
SELECT new.column1, ?1, ?2, ?3, 0, ?4, ?5, ?6, NULL, x'', 1, 'pending', 0, 0
FROM (VALUES (?)) AS new
