-- share_stones.sql: let no id be put in as a stone while it is inserted as a task (see hold_stones.sql).
-- Inserts of chosen ids do not wait for each other here.
SELECT pg_advisory_xact_lock_shared('tenure.stones'::regclass::oid::bigint)
