-- restore.sql: open tasks from another store, as they were there.
WITH new AS (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::bytea[], $10::integer[], $11::text[], $12::integer[], $13::bigint[], $14::timestamptz[],
        $15::text[], $16::timestamptz[], $17::boolean[], $18::bigint[]
    ) AS new (
        id, queue, type, priority, created_at, available_at, expires_at, ordering_key, record, version, status,
        attempts, fence, lease_expires_at, worker_id, claimed_at, cancel_requested, seq
    )
)
INSERT INTO tenure.tasks
    (id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, record,
     version, status, attempts, fence, lease_expires_at, worker_id, claimed_at, cancel_requested, seq)
SELECT id, queue, type, priority, ordering_key IS NOT NULL AND status = 'pending', created_at, available_at, expires_at, ordering_key,
    record, version, status, attempts, fence, lease_expires_at, worker_id, claimed_at, cancel_requested, seq
FROM new
