-- stones.sql: what is left of pruned tasks, while they are remembered.
SELECT id, record FROM tenure.stones WHERE id = ANY($1::text[]) AND forget_at > $2
