-- take_over.sql: write the records of keys over those that stand there.
INSERT INTO tenure.reservations (identity, expires_at, record)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bytea[])
ON CONFLICT (identity) DO UPDATE SET expires_at = excluded.expires_at, record = excluded.record
