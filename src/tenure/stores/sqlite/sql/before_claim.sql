-- before_claim.sql: whether any lease has run out or any deadline has passed, and whether any queue is paused.
-- Uses tenure_leases, tenure_deadlines and the key of the notes.
SELECT EXISTS (
    SELECT 1 FROM tenure_tasks INDEXED BY tenure_leases WHERE status = 'running' AND lease_expires_at <= :now
) OR EXISTS (
    SELECT 1 FROM tenure_tasks INDEXED BY tenure_deadlines
    WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
), EXISTS (SELECT 1 FROM tenure_notes WHERE kind = :pause)
