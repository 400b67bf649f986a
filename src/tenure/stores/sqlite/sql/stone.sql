-- stone.sql: what is left of a pruned task, while it is remembered.
SELECT record FROM tenure_stones WHERE id = ? AND forget_at > ?
