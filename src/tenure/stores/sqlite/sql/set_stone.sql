-- set_stone.sql: leave stones for pruned tasks.
INSERT OR REPLACE INTO tenure_stones (id, forget_at, record) VALUES (?, ?, ?)
