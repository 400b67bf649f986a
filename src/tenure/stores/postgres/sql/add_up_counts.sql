-- add_up_counts.sql: move what has changed since the last time into the counts, unless another does it right now.
WITH changes AS (
    DELETE FROM tenure.count_changes
    WHERE (SELECT pg_try_advisory_xact_lock(7305796, hashtext('tenure.counts')))
    RETURNING queue, type, status, change
)
INSERT INTO tenure.counts (queue, type, status, count)
SELECT queue, type, status, sum(change) FROM changes GROUP BY queue, type, status ORDER BY queue, type, status
ON CONFLICT (queue, type, status) DO UPDATE SET count = counts.count + excluded.count
