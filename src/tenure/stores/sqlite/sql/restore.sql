-- restore.sql: tasks from another store, as they were there.
INSERT INTO tenure_tasks
    (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
     version, status, attempts, fence, lease_expires_at, ended_at, worker_id, cancel_requested)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, x'', ?, ?, ?, ?, ?, ?, ?, ?)
