-- The first schema. What is searched stands in columns; the rest of a task is its record.
-- Times are microseconds since 1970, so that they sort as numbers and lose nothing.
CREATE TABLE tenure_tasks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- submit order; a number is never used twice, so cursors stay true
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    priority INTEGER NOT NULL,
    blocked INTEGER NOT NULL,             -- 1 while an earlier task of its ordering key has not ended
    attempts INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    available_at INTEGER NOT NULL,
    expires_at INTEGER,
    lease_expires_at INTEGER,             -- newer than the record's while the lease is being renewed
    ended_at INTEGER,
    ordering_key TEXT,
    worker_id TEXT,
    claimed_at INTEGER,                   -- with policy_max: a claim that the record does not know yet (see records.py)
    policy_max INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    progress BLOB,
    record BLOB NOT NULL,
    CHECK ((status = 'running') = (lease_expires_at IS NOT NULL))
) STRICT;

-- What can run, in the order it runs: ended, running and blocked tasks are not in it.
CREATE INDEX tenure_runnable ON tenure_tasks (queue, type, priority DESC, available_at)
    WHERE status = 'pending' AND blocked = 0;

-- Pending tasks in submit order, for listings.
CREATE INDEX tenure_pending ON tenure_tasks (seq) WHERE status = 'pending';

-- Running tasks by the end of their lease, for recovery.
CREATE INDEX tenure_leases ON tenure_tasks (lease_expires_at) WHERE status = 'running';

-- Pending tasks by deadline, for expiry.
CREATE INDEX tenure_deadlines ON tenure_tasks (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;

-- Ended tasks by status and end, for listings and retention.
CREATE INDEX tenure_ended ON tenure_tasks (status, ended_at) WHERE ended_at IS NOT NULL;

-- Open tasks of each ordering key, for finding whose turn is next.
CREATE INDEX tenure_ordering ON tenure_tasks (ordering_key, status, blocked, seq)
    WHERE ordering_key IS NOT NULL AND status IN ('pending', 'running');

CREATE TABLE tenure_tags (
    tag TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;

-- How many tasks there are, kept up to date with every change, so that counting costs the same however many.
CREATE TABLE tenure_counts (
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (queue, type, status)
) STRICT, WITHOUT ROWID;

CREATE TABLE tenure_reservations (
    identity TEXT PRIMARY KEY,
    expires_at INTEGER,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tenure_stale ON tenure_reservations (expires_at) WHERE expires_at IS NOT NULL;

-- What is left of a pruned task while a repeated submit must still find it.
CREATE TABLE tenure_stones (
    id TEXT PRIMARY KEY,
    forget_at INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tenure_forgettable ON tenure_stones (forget_at);

CREATE TABLE tenure_notes (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
