-- lane.sql: begins a statement with the lanes of a worker: the (queue, type, priority) triples with something to run,
-- each with the number of its queue and type.
-- Jumps from one priority to the next through tenure_runnable, so it never walks over tasks, and down to the :levels first of
-- each queue and type at most, so that a claim does not grow with the number of priorities that wait.
WITH RECURSIVE lane (number, queue, type, priority, level) AS (
    SELECT queues.key * json_array_length(:types) + types.key, queues.value, types.value, (
        SELECT priority FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0 AND queue = queues.value AND type = types.value
        ORDER BY priority DESC LIMIT 1
    ), 1
    FROM json_each(:queues) AS queues, json_each(:types) AS types
    UNION ALL
    SELECT lane.number, lane.queue, lane.type, (
        SELECT priority FROM tenure_tasks INDEXED BY tenure_runnable
        WHERE status = 'pending' AND blocked = 0 AND queue = lane.queue AND type = lane.type
            AND priority < lane.priority
        ORDER BY priority DESC LIMIT 1
    ), lane.level + 1
    FROM lane WHERE lane.priority IS NOT NULL AND lane.level < :levels
)
