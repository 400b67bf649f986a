-- insert.sql: new tasks, without their records (keep.sql). Fails on an id that is there already. Where there is no deadline or no ordering key, the parameter is an
-- empty text, which Python's driver takes in half the time of None.
INSERT INTO tenure_tasks
    (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
     version, status, attempts, fence)
VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), x'', 1, 'pending', 0, 0)
