-- reservations.sql: the records of keys, locked so that nobody takes them over meanwhile.
SELECT identity, record FROM tenure.reservations WHERE identity = ANY($1::text[]) ORDER BY identity FOR UPDATE
