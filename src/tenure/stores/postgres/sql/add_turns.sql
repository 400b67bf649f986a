-- add_turns.sql: ordering keys whose first task has to be found anew.
INSERT INTO tenure.turns (ordering_key) SELECT DISTINCT key FROM unnest($1::text[]) AS keys (key)
