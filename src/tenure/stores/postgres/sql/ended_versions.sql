-- ended_versions.sql: the rows of tasks, where they have ended and these are still their versions.
-- Each id is looked up (ANY), whatever the server believes to be in the table: see decision 032.
SELECT ended.seq, ended.id FROM tenure.ended
JOIN unnest($1::text[], $2::integer[]) AS asked (id, version) ON ended.id = ANY (ARRAY[asked.id]) AND ended.version = asked.version
WHERE ended.status <> 'damaged'
FOR UPDATE OF ended
