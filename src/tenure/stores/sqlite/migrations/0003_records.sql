-- Records have a table of their own: a row is written anew with every step of its task, and a record only when it says something new.
-- In the row itself the record is empty. One that an earlier version has put there stays until it says something new.
CREATE TABLE tenure_records (
    seq INTEGER PRIMARY KEY, -- the task's
    record BLOB NOT NULL
) STRICT;

-- For people who look into the file: every task with its record, wherever that is kept.
CREATE VIEW tenure_readable AS
SELECT seq, id, queue, type, status,
    coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq)) AS record
FROM tenure_tasks;
