-- key_block.sql: nobody's turn yet: block the waiting task of a key that was free to go. Uses tenure_ordering.
-- (The IN repeats the index's own condition: older planners do not see that it follows from the status.)
UPDATE tenure_tasks INDEXED BY tenure_ordering SET blocked = 1
WHERE ordering_key = ? AND status IN ('pending', 'running') AND status = 'pending' AND blocked = 0
