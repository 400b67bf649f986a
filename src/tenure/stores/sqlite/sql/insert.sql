-- insert.sql: new tasks. Fails on an id that is there already.
INSERT INTO tenure_tasks
    (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
     version, status, attempts, fence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
