-- insert.sql: a new task. Fails on an id that is there already.
INSERT INTO tenure_tasks
    (id, version, status, queue, type, priority, blocked, attempts, fence,
     created_at, available_at, expires_at, ordering_key, record)
VALUES (?, 1, 'pending', ?, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?)
