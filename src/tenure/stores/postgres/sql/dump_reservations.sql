-- dump_reservations.sql: the next records of keys.
SELECT identity, record FROM tenure.reservations WHERE identity > $1::text ORDER BY identity LIMIT $2
