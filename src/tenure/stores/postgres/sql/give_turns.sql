-- give_turns.sql: find anew whose turn it is among the tasks of each ordering key that has changed: nobody's
-- while one runs, else the one submitted first. Sent as one request without parameters, in one transaction.
-- One of these runs at a time, each statement sees what was committed before it began, and the tasks that may go
-- are locked, so none can start while it is decided that another one goes first. Uses tasks_ordering.
SET LOCAL lock_timeout = '5s';
SELECT pg_advisory_xact_lock(7305796, hashtext('tenure.turns'));
UPDATE tenure.turns SET taken = true;
SELECT FROM tenure.tasks
WHERE ordering_key IN (SELECT ordering_key FROM tenure.turns WHERE taken) AND NOT blocked
FOR UPDATE;
WITH keys AS MATERIALIZED (
    SELECT DISTINCT ordering_key FROM tenure.turns WHERE taken
),
free AS MATERIALIZED (
    SELECT tasks.ordering_key, tasks.seq, tasks.status
    FROM keys JOIN tenure.tasks ON tasks.ordering_key = keys.ordering_key AND NOT tasks.blocked
),
heads AS MATERIALIZED (
    SELECT least((
        SELECT seq FROM tenure.tasks
        WHERE tasks.ordering_key = keys.ordering_key AND tasks.blocked ORDER BY seq LIMIT 1
    ), (
        SELECT min(seq) FROM free WHERE free.ordering_key = keys.ordering_key
    )) AS seq
    FROM keys
    WHERE NOT EXISTS (SELECT FROM free WHERE free.ordering_key = keys.ordering_key AND free.status = 'running')
),
turning AS MATERIALIZED (
    SELECT seq FROM free WHERE status = 'pending' EXCEPT SELECT seq FROM heads
    UNION ALL
    (SELECT seq FROM heads EXCEPT SELECT seq FROM free)
)
UPDATE tenure.tasks SET blocked = NOT blocked FROM turning WHERE tasks.seq = turning.seq;
DELETE FROM tenure.turns WHERE taken;
