-- keep.sql: records, by the numbers of their tasks.
INSERT INTO tenure_records (seq, record) VALUES (?, ?)
