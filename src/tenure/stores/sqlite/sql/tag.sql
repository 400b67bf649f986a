-- tag.sql: tags of new tasks.
INSERT INTO tenure_tags (tag, seq) VALUES (?, ?)
