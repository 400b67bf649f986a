-- The first schema. What is searched stands in columns; the rest of a task is its record, as JSON in UTF-8.
-- `tenure` stands for the schema that the address names.
CREATE SEQUENCE tenure.submit_order;

-- Open tasks. What has ended leaves for tenure.ended, so that this table and its indexes stay as small as
-- the work that is left, and vacuum has little to look through.
CREATE TABLE tenure.tasks (
    seq bigint PRIMARY KEY DEFAULT nextval('tenure.submit_order'),
    id text COLLATE "C" NOT NULL UNIQUE,
    version integer NOT NULL,
    status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    blocked boolean NOT NULL,             -- while it is not its turn among the tasks of its ordering key
    attempts integer NOT NULL,
    fence bigint NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    expires_at timestamptz,
    lease_expires_at timestamptz,         -- newer than the record's while the lease is being renewed
    worker_id text COLLATE "C",
    claimed_at timestamptz,               -- a claim stands in these columns only, and is added to the record when read
    policy_max integer,
    cancel_requested boolean NOT NULL DEFAULT false,
    ordering_key text COLLATE "C",
    progress bytea,
    record bytea NOT NULL,
    CHECK (status IN ('pending', 'running')),
    CHECK ((status = 'running') = (lease_expires_at IS NOT NULL)),
    CHECK ((status = 'running') = (worker_id IS NOT NULL)),
    CHECK ((status = 'running') = (claimed_at IS NOT NULL)),
    CHECK (status = 'running' OR (progress IS NULL AND policy_max IS NULL))
) WITH (
    -- Every update moves a row between partial indexes, so none could stay on its page: leave no room for that.
    fillfactor = 100,
    -- Each task leaves two dead rows here. Clear them away early and without pauses, while they are still in memory.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 5000
);

-- What can run, in the order it runs: running and blocked tasks are not in it.
CREATE INDEX tasks_runnable ON tenure.tasks (queue, type, priority DESC, available_at, seq)
    WHERE status = 'pending' AND NOT blocked;

-- Running tasks by the end of their lease, for recovery.
CREATE INDEX tasks_leases ON tenure.tasks (lease_expires_at) WHERE status = 'running';

-- Pending tasks by deadline, for expiry.
CREATE INDEX tasks_deadlines ON tenure.tasks (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;

-- Tasks of each ordering key, for finding whose turn is next.
CREATE INDEX tasks_ordering ON tenure.tasks (ordering_key, blocked, seq) WHERE ordering_key IS NOT NULL;

-- The few tasks that someone asked to stop, for the workers that run them.
CREATE INDEX tasks_asked_to_stop ON tenure.tasks (worker_id) WHERE cancel_requested;

-- Ended tasks, and records that cannot be read (status 'damaged').
CREATE TABLE tenure.ended (
    seq bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    version integer NOT NULL,
    status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    fence bigint NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    ended_at timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    ordering_key text COLLATE "C",
    record bytea NOT NULL,
    CHECK (status NOT IN ('pending', 'running')),
    CHECK ((status = 'damaged') = (ended_at IS NULL))
);

-- Ended tasks by status and end, for listings and retention.
CREATE INDEX ended_by_end ON tenure.ended (status, ended_at, seq);

CREATE VIEW tenure.everything AS
    SELECT seq, id, version, status, queue, type, attempts, created_at, available_at, ordering_key, cancel_requested,
        worker_id, lease_expires_at, claimed_at, policy_max, progress, NULL::timestamptz AS ended_at, record
    FROM tenure.tasks
    UNION ALL
    SELECT seq, id, version, status, queue, type, attempts, created_at, available_at, ordering_key, cancel_requested,
        NULL, NULL, NULL, NULL, NULL, ended_at, record
    FROM tenure.ended;

-- Ordering keys whose first task has to be found anew, because something about them has changed.
CREATE TABLE tenure.turns (
    ordering_key text COLLATE "C" NOT NULL,
    taken boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE tenure.tags (
    tag text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (tag, seq)
);

-- How many tasks there are. Every change adds a row to count_changes, which locks nobody out; now and then
-- these rows are added up in counts.
CREATE TABLE tenure.counts (
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (queue, type, status)
) WITH (fillfactor = 50);

CREATE TABLE tenure.count_changes (
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    change bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE tenure.reservations (
    identity text COLLATE "C" PRIMARY KEY,
    expires_at timestamptz,
    record bytea NOT NULL
);

CREATE INDEX reservations_stale ON tenure.reservations (expires_at) WHERE expires_at IS NOT NULL;

-- What is left of a pruned task while a repeated submit must still find it.
CREATE TABLE tenure.stones (
    id text COLLATE "C" PRIMARY KEY,
    forget_at timestamptz NOT NULL,
    record bytea NOT NULL
);

CREATE INDEX stones_forgettable ON tenure.stones (forget_at);

CREATE TABLE tenure.notes (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    updated_at timestamptz NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);

-- Who listens for news; nothing is sent while nobody does. After a crash it is empty, like the listeners' connections.
CREATE UNLOGGED TABLE tenure.listeners (
    listener text COLLATE "C" PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
