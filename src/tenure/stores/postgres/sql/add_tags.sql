-- add_tags.sql: tags of tasks.
INSERT INTO tenure.tags (tag, seq) SELECT * FROM unnest($1::text[], $2::bigint[])
