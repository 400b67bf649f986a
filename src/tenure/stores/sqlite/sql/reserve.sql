-- reserve.sql: write the record of a key, over a stale one if need be.
INSERT INTO tenure_reservations (identity, expires_at, record) VALUES (?, ?, ?)
ON CONFLICT (identity) DO UPDATE SET expires_at = excluded.expires_at, record = excluded.record
