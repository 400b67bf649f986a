-- due.sql: follows lane.sql: the tasks that run next, in one row: their numbers and those of their lanes, a JSON array of their records
-- (as bytes, because a damaged record may be no text at all), and their ids, ordering keys and
-- versions, which the records must have, too; and at last, whether the search for lanes has come to its end.
-- Where it has not, lanes below the first one that may be missing are left for another claim.
-- Takes only what is due from each lane through tenure_runnable, so tasks that cannot run now cost nothing.
, unseen (priority) AS (
    SELECT max(priority) FROM lane WHERE level = :levels
)
, due (seq, lane) AS (
    SELECT task.seq, lane.number FROM lane JOIN tenure_tasks AS task ON task.seq IN (
        SELECT seq FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0
            AND queue = lane.queue AND type = lane.type AND priority = lane.priority
            AND available_at <= :now AND (expires_at IS NULL OR expires_at > :now)
        ORDER BY available_at, seq LIMIT :count
    )
    WHERE lane.priority IS NOT NULL AND lane.priority >= coalesce((SELECT priority FROM unseen), lane.priority)
    ORDER BY task.priority DESC, task.available_at, task.seq LIMIT :count
)
SELECT group_concat(seq), group_concat(lane), CAST('[' || group_concat(CAST(record AS TEXT)) || ']' AS BLOB),
    group_concat(id, char(0)), group_concat(ordering_key, char(0)), sum(version), (SELECT priority IS NULL FROM unseen)
FROM (
    SELECT task.seq, due.lane, task.id, task.ordering_key, task.version,
        coalesce(nullif(task.record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = task.seq)) AS record
    FROM due CROSS JOIN tenure_tasks AS task ON task.seq = due.seq
)
