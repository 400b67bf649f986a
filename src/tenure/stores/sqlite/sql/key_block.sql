-- key_block.sql: nobody's turn yet: block the waiting task of a key that was free to go. Uses tenure_ordering.
UPDATE tenure_tasks INDEXED BY tenure_ordering SET blocked = 1
WHERE ordering_key = ? AND status = 'pending' AND blocked = 0
