-- restore_ended.sql: ended tasks from another store, as they were there.
INSERT INTO tenure.ended
    (id, queue, type, priority, created_at, available_at, ordering_key, record, version, status, attempts, fence,
     ended_at, cancel_requested, seq)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::bytea[],
    $9::integer[], $10::text[], $11::integer[], $12::bigint[], $13::timestamptz[], $14::boolean[], $15::bigint[]
)
