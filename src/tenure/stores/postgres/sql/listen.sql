-- listen.sql: somebody listens for news.
INSERT INTO tenure.listeners (listener, seen_at) VALUES ($1, statement_timestamp())
ON CONFLICT (listener) DO UPDATE SET seen_at = excluded.seen_at
