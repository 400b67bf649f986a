"""What the bare asyncpg driver can do with the same writes and no queue on top.

Two tables with the indexes that a claim, recovery and retention need, records of the same size, one
connection, the server's durable settings.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import asyncpg

from floors import CLAIM_BATCH, INSERT_BATCH, record

_TABLES = """
CREATE TABLE {0}_open (
    seq bigserial PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, type text COLLATE "C" NOT NULL, priority integer NOT NULL,
    available_at timestamptz NOT NULL, lease_expires_at timestamptz, record bytea NOT NULL
);
CREATE INDEX ON {0}_open (queue, type, priority DESC, available_at, seq) WHERE status = 'pending';
CREATE INDEX ON {0}_open (lease_expires_at) WHERE status = 'running';
CREATE TABLE {0}_ended (
    seq bigint PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL, type text COLLATE "C" NOT NULL, priority integer NOT NULL,
    available_at timestamptz NOT NULL, ended_at timestamptz NOT NULL, record bytea NOT NULL
);
CREATE INDEX ON {0}_ended (status, ended_at, seq);
"""
_INSERT = """
INSERT INTO {0}_open (id, status, queue, type, priority, available_at, record)
SELECT id, 'pending', 'default', 'send_reminder', 0, available_at, record
FROM unnest($1::text[], $2::timestamptz[], $3::bytea[]) AS new (id, available_at, record)
"""
INSERT_AND_TELL = f"WITH added AS ({_INSERT} RETURNING seq) SELECT pg_notify('{{0}}', '') FROM added"
CLAIM = """
UPDATE {0}_open SET status = 'running', lease_expires_at = now() + interval '30 s'
WHERE seq = ANY (ARRAY(
    SELECT seq FROM {0}_open
    WHERE status = 'pending' AND queue = 'default' AND type = 'send_reminder' AND available_at <= now()
    ORDER BY priority DESC, available_at, seq LIMIT $1 FOR UPDATE SKIP LOCKED
)) RETURNING id, record
"""
_FINISH = """
WITH gone AS (
    DELETE FROM {0}_open USING unnest($1::text[], $2::bytea[]) AS new (id, record) WHERE {0}_open.id = new.id
    RETURNING seq, {0}_open.id, 'completed', queue, type, priority, available_at, now(), new.record
)
INSERT INTO {0}_ended SELECT * FROM gone
"""


class Floor:
    """One pair of tables."""

    def __init__(self, db: asyncpg.Connection, name: str) -> None:
        self.db, self.name = db, name

    @classmethod
    async def open(cls, url: str, name: str) -> Floor:
        floor = await cls.connect(url, name)
        await floor.db.execute(_TABLES.format(name))
        return floor

    @classmethod
    async def connect(cls, url: str, name: str) -> Floor:
        """Tables that are there already."""
        settings = {"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}
        return cls(await asyncpg.connect(url, server_settings=settings), name)

    async def close(self) -> None:
        await self.db.execute(f"DROP TABLE {self.name}_open, {self.name}_ended")
        await self.db.close()

    async def insert(self, count: int, batch: int = INSERT_BATCH) -> float:
        """Tasks per second, this many in a statement."""
        begin = time.monotonic()
        for start in range(0, count, batch):
            numbers = range(start, min(start + batch, count))
            now = datetime.now(UTC)
            values = [f"{number:036}" for number in numbers], [now for _ in numbers], [record(n) for n in numbers]
            await self.db.execute(_INSERT.format(self.name), *values)
        return count / (time.monotonic() - begin)

    async def claim_and_finish(self, count: int) -> float:
        """Tasks per second, claimed by one statement and finished by another."""
        await self.insert(count)
        begin = time.monotonic()
        finished = 0
        while rows := await self.db.fetch(CLAIM.format(self.name), CLAIM_BATCH):
            await self.db.execute(_FINISH.format(self.name), [row[0] for row in rows], [row[1] for row in rows])
            finished += len(rows)
        assert finished == count
        return count / (time.monotonic() - begin)
