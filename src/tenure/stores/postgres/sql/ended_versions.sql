-- ended_versions.sql: the rows of tasks, where they have ended and these are still their versions.
SELECT ended.seq, ended.id FROM tenure.ended
JOIN unnest($1::text[], $2::integer[]) AS asked (id, version) ON ended.id = asked.id AND ended.version = asked.version
WHERE ended.status <> 'damaged'
FOR UPDATE OF ended
