-- overdue.sql: whether any lease has run out or any deadline has passed. Uses tenure_leases and tenure_deadlines.
SELECT EXISTS (
    SELECT 1 FROM tenure_tasks INDEXED BY tenure_leases WHERE status = 'running' AND lease_expires_at <= :now
) OR EXISTS (
    SELECT 1 FROM tenure_tasks INDEXED BY tenure_deadlines
    WHERE status = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
)
