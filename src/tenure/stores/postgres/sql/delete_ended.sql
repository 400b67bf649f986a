-- delete_ended.sql: forget ended tasks and their tags.
WITH gone AS (
    DELETE FROM tenure.ended WHERE id = ANY($1::text[])
)
DELETE FROM tenure.tags USING unnest($2::text[], $3::bigint[]) AS old (tag, seq)
WHERE tags.tag = old.tag AND tags.seq = old.seq
