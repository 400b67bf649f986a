-- keep_anew.sql: records of tasks whose versions were replaced, by their ids.
INSERT OR REPLACE INTO tenure_records (seq, record)
SELECT task.seq, new.column2
FROM (VALUES (?, ?)) AS new CROSS JOIN tenure_tasks AS task ON task.id = new.column1
