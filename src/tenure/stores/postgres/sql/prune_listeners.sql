-- prune_listeners.sql: forget listeners that died without a word.
DELETE FROM tenure.listeners WHERE seen_at < statement_timestamp() - interval '10 minutes'
