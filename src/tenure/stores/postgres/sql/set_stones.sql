-- set_stones.sql: leave stones for pruned tasks.
INSERT INTO tenure.stones (id, forget_at, record)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::bytea[])
ON CONFLICT (id) DO UPDATE SET forget_at = excluded.forget_at, record = excluded.record
