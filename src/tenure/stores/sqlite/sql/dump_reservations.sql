-- dump_reservations.sql: the next records of keys.
SELECT identity, record FROM tenure_reservations WHERE identity > ? ORDER BY identity LIMIT ?
