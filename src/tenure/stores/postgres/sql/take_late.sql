-- take_late.sql: late.sql for whoever settles them now: what another settles already is left to it.
SELECT id, record, version, expires_at, NULL, NULL, NULL, NULL, seq, ordering_key
FROM tenure.tasks WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= $1
ORDER BY expires_at, seq LIMIT $2
FOR UPDATE SKIP LOCKED
