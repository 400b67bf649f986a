-- delete_tags.sql: forget tags of tasks.
DELETE FROM tenure_tags WHERE (tag, seq) IN (VALUES (?, ?))
