-- claim.sql: take up to $5 due tasks of the queues $2 and types $3 for worker $7, in order, each for $6 microseconds.
-- The lanes of a worker are the (queue, type, priority) triples with something to run: the search jumps from one to
-- the next through tasks_runnable and takes only what is due from each, so tasks that cannot run now cost nothing.
-- It goes down to the $9 first priorities of each queue and type; where there are more, lanes below the first one that may be
-- missing are left for another claim, and the answer tells that there may be some.
-- With several lanes, a first look tells how many of the tasks that run next are in each of them.
-- The end of a pause is compared as text, because a cast would fail on a note that was damaged; one without a legible end goes on.
-- No backslash finds it: with standard_conforming_strings off, as a role may have it, texts in a statement lose theirs.
-- Rows locked by another claim are skipped, so concurrent workers never wait for each other.
-- When a lease has run out, a deadline has passed or a turn is to be given, nothing is taken: that comes first,
-- unless $8 says that it was tried and others hold it up.
-- The first row of the answer tells about the search, each of the others is a task.
-- $1 is the time of a test's clock, or NULL for the server's own; $4 are the limits of the types' retry policies.
WITH RECURSIVE moment (now, turns, overdue) AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, statement_timestamp()),
        EXISTS (SELECT FROM tenure.turns),
        EXISTS (
            SELECT FROM tenure.tasks
            WHERE status = 'running' AND lease_expires_at <= coalesce($1::timestamptz, statement_timestamp())
        )
        OR EXISTS (
            SELECT FROM tenure.tasks
            WHERE status = 'pending' AND expires_at IS NOT NULL
                AND expires_at <= coalesce($1::timestamptz, statement_timestamp())
        )
),
lane (queue, type, priority, level) AS (
    SELECT queues.name, types.name, (
        SELECT priority FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked AND queue = queues.name AND type = types.name
        ORDER BY priority DESC LIMIT 1
    ), 1
    FROM moment, unnest($2::text[]) AS queues (name), unnest($3::text[]) AS types (name)
    WHERE ($8::boolean OR NOT (turns OR overdue)) AND NOT EXISTS (
        SELECT FROM tenure.notes, regexp_match(
            encode(value, 'escape'), '"until":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})([.][0-9]+)?(?:Z|[+]00:00)"'
        ) AS until
        WHERE kind = 'pause' AND key = queues.name
            AND coalesce(until[1] || rpad(coalesce(until[2], '.'), 7, '0')
                > to_char(now AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') COLLATE "C", true)
    )
    UNION ALL
    SELECT lane.queue, lane.type, (
        SELECT priority FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked AND queue = lane.queue AND type = lane.type
            AND priority < lane.priority
        ORDER BY priority DESC LIMIT 1
    ), lane.level + 1
    FROM lane WHERE lane.priority IS NOT NULL AND lane.level < $9
),
seen (queue, type, priority) AS MATERIALIZED (
    SELECT queue, type, priority FROM lane
    WHERE priority >= coalesce((SELECT max(priority) FROM lane WHERE level = $9), priority)
),
lanes (alone) AS (
    SELECT count(*) = 1 FROM seen
),
due AS (
    SELECT seen.queue, seen.type, seen.priority, head.available_at, head.seq
    FROM seen CROSS JOIN LATERAL (
        SELECT available_at, seq FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked
            AND queue = seen.queue AND type = seen.type AND priority = seen.priority
            AND available_at <= coalesce($1::timestamptz, statement_timestamp())
        ORDER BY available_at, seq LIMIT $5
    ) AS head
    WHERE NOT (SELECT alone FROM lanes)
    ORDER BY seen.priority DESC, head.available_at, head.seq LIMIT $5
),
share AS (
    SELECT queue, type, priority, $5::bigint AS size FROM seen WHERE (SELECT alone FROM lanes)
    UNION ALL
    SELECT queue, type, priority, count(*) AS size FROM due GROUP BY queue, type, priority
),
taken AS (
    SELECT head.seq
    FROM share CROSS JOIN LATERAL (
        SELECT seq FROM tenure.tasks
        WHERE status = 'pending' AND NOT blocked
            AND queue = share.queue AND type = share.type AND priority = share.priority
            AND available_at <= coalesce($1::timestamptz, statement_timestamp())
            AND (expires_at IS NULL OR expires_at > coalesce($1::timestamptz, statement_timestamp()))
        ORDER BY available_at, seq LIMIT share.size
        FOR UPDATE SKIP LOCKED
    ) AS head
),
claimed AS (
    UPDATE tenure.tasks
    SET status = 'running', version = version + 1, fence = fence + 1, worker_id = $7,
        claimed_at = coalesce($1::timestamptz, statement_timestamp()),
        lease_expires_at = least(
            coalesce($1::timestamptz, statement_timestamp()) + $6::bigint * interval '1 microsecond',
            '9999-12-31 23:59:59.999999+00'
        ),
        policy_max = ($4::integer[])[array_position($3::text[], type)]
    WHERE seq = ANY (ARRAY(SELECT seq FROM taken))
    RETURNING queue, type, priority, available_at, seq, id, record, version
),
counted AS (
    INSERT INTO tenure.count_changes (queue, type, status, change)
    SELECT queue, type, moved.status, moved.sign * size
    FROM (SELECT queue, type, count(*) AS size FROM claimed GROUP BY queue, type) AS lanes,
        (VALUES ('pending', -1), ('running', 1)) AS moved (status, sign)
)
SELECT id, record, version, now, turns, overdue, next_due, is_all
FROM (
    SELECT NULL AS id, NULL AS record, NULL AS version, now, turns, overdue,
        CASE WHEN NOT EXISTS (SELECT FROM claimed) THEN (
            SELECT min((
                SELECT available_at FROM tenure.tasks
                WHERE status = 'pending' AND NOT blocked
                    AND queue = lane.queue AND type = lane.type AND priority = lane.priority
                    AND available_at > coalesce($1::timestamptz, statement_timestamp())
                ORDER BY available_at LIMIT 1
            ))
            FROM lane WHERE lane.priority IS NOT NULL
        ) END AS next_due,
        NOT EXISTS (SELECT FROM lane WHERE level = $9 AND priority IS NOT NULL) AS is_all,
        NULL AS priority, NULL AS available_at, NULL AS seq
    FROM moment
    UNION ALL
    SELECT id, record, version, NULL, NULL, NULL, NULL, NULL, priority, available_at, seq FROM claimed
) AS answer
ORDER BY id IS NOT NULL, priority DESC, available_at, seq
