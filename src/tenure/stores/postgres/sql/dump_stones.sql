-- dump_stones.sql: the next stones of pruned tasks.
SELECT id, record FROM tenure.stones WHERE id > $1::text ORDER BY id LIMIT $2
