-- hold_stones.sql: let no id be inserted as a task while it is put in as a stone (see share_stones.sql).
-- The number is the table's own, so that schemas do not wait for each other.
SELECT pg_advisory_xact_lock('tenure.stones'::regclass::oid::bigint)
