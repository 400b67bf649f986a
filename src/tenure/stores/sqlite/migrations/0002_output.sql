-- What a handler returned, of a task whose completion the record does not know (see records.py).
ALTER TABLE tenure_tasks ADD COLUMN output BLOB;
