-- delete_tag.sql: forget a tag of a task.
DELETE FROM tenure_tags WHERE tag = ? AND seq = ?
