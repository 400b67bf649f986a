-- dump_tasks.sql: the next tasks in submit order.
SELECT seq, id, record, lease_expires_at, progress FROM tenure_tasks WHERE seq > ? ORDER BY seq LIMIT ?
