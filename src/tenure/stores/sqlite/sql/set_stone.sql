-- set_stone.sql: leave a stone for a pruned task.
INSERT OR REPLACE INTO tenure_stones (id, forget_at, record) VALUES (?, ?, ?)
