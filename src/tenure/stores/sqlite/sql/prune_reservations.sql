-- prune_reservations.sql: forget records of keys that have outlived their time. Uses tenure_stale.
DELETE FROM tenure_reservations WHERE identity IN (
    SELECT identity FROM tenure_reservations INDEXED BY tenure_stale
    WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?
)
