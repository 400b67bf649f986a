-- renew.sql: a longer lease for the claim with this fence; never a shorter one.
UPDATE tenure_tasks SET lease_expires_at = max(lease_expires_at, ?), progress = coalesce(?, progress)
WHERE id = ? AND fence = ? AND status = 'running'
RETURNING cancel_requested
