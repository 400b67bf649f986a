-- reserve.sql: write the records of keys that have none; answers with those that were new.
-- In the order of their names, so that two batches wait for each other in one direction only.
INSERT INTO tenure.reservations (identity, expires_at, record)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bytea[]) AS new (identity, expires_at, record)
ORDER BY identity
ON CONFLICT (identity) DO NOTHING
RETURNING identity
