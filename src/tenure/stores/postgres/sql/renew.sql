-- renew.sql: longer leases for claims that are still the newest of their task; never shorter ones.
-- Running ones are told by their worker: by their status, a planner that believes them to be few walks through all.
-- Answers with the ids that are still held, and whether someone asked them to stop.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
UPDATE tenure.tasks
SET lease_expires_at = greatest(
        tasks.lease_expires_at,
        least(
            coalesce($1::timestamptz, statement_timestamp()) + new.lease * interval '1 microsecond',
            '9999-12-31 23:59:59.999999+00'
        )
    ),
    progress = coalesce(new.progress, tasks.progress)
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) AS new (id, fence, lease, progress)
WHERE tasks.id = ANY (ARRAY[new.id]) AND tasks.fence = new.fence AND tasks.worker_id IS NOT NULL
RETURNING tasks.id, tasks.cancel_requested
