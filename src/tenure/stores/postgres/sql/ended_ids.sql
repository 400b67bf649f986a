-- ended_ids.sql: which of these ids belong to ended tasks. Asked after an insert: a task that moved to tenure.ended
-- while the insert looked for it is seen now.
SELECT id FROM tenure.ended WHERE id = ANY($1::text[])
