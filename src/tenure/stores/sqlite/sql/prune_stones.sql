-- prune_stones.sql: forget stones that have outlived their time. Uses tenure_forgettable.
DELETE FROM tenure_stones WHERE id IN (
    SELECT id FROM tenure_stones INDEXED BY tenure_forgettable WHERE forget_at <= ? LIMIT ?
)
