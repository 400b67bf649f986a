-- dump_stones.sql: the next stones of pruned tasks.
SELECT id, record FROM tenure_stones WHERE id > ? ORDER BY id LIMIT ?
