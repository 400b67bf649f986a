-- prune_stones.sql: forget stones that have outlived their time. Uses stones_forgettable.
DELETE FROM tenure.stones WHERE id IN (
    SELECT id FROM tenure.stones WHERE forget_at <= $1
    ORDER BY forget_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING id
