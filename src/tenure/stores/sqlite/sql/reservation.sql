-- reservation.sql: the record of a key.
SELECT record FROM tenure_reservations WHERE identity = ?
