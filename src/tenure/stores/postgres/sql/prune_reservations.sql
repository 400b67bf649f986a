-- prune_reservations.sql: forget records of keys that have outlived their time. Uses reservations_stale.
DELETE FROM tenure.reservations WHERE identity IN (
    SELECT identity FROM tenure.reservations WHERE expires_at <= $1
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING identity
