-- claim.sql: claimed tasks, inside the transaction that found them. The record learns of it with the next change.
UPDATE tenure_tasks
SET status = 'running', version = version + 1, fence = fence + 1, lease_expires_at = :lease_end,
    worker_id = :worker_id, claimed_at = :now, policy_max = :policy_max, progress = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs))
