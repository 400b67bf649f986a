-- claimable.sql: what a claim has to know of one task, by its number.
SELECT id, ordering_key, version,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq))
FROM tenure_tasks WHERE seq = ?
