"""What the parts can do with no queue on top: the bare sqlite3 driver, and plain asyncio.

The driver works with the same durable settings and writes records of the same size, into one
table with the one index that a claim needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from pathlib import Path

import pydantic

from workload import Reminder, reminder

INSERT_BATCH = 1000
CLAIM_BATCH = 500

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
CREATE TABLE IF NOT EXISTS tasks (seq INTEGER PRIMARY KEY, status TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS runnable ON tasks (seq) WHERE status = 'pending';
"""
_INSERT = "INSERT INTO tasks (status, record) VALUES ('pending', ?)"
CLAIM = """
UPDATE tasks SET status = 'running'
WHERE seq IN (SELECT seq FROM tasks WHERE status = 'pending' ORDER BY seq LIMIT ?) RETURNING seq, record
"""
_FINISH = "UPDATE tasks SET status = 'completed', record = ? WHERE seq = ?"


def insert(path: Path, count: int, batch: int) -> float:
    """Tasks per second, this many in a transaction."""
    with contextlib.closing(open_file(path)) as db:
        begin = time.monotonic()
        fill(db, count, batch)
        return count / (time.monotonic() - begin)


def claim_and_finish(path: Path, count: int) -> float:
    """Tasks per second, claimed in one transaction and finished in another."""
    with contextlib.closing(open_file(path)) as db:
        fill(db, count, INSERT_BATCH)
        begin = time.monotonic()
        finished = 0
        while True:
            db.execute("BEGIN IMMEDIATE")
            claimed = db.execute(CLAIM, (CLAIM_BATCH,)).fetchall()
            db.execute("COMMIT")
            if not claimed:
                break
            db.execute("BEGIN IMMEDIATE")
            db.executemany(_FINISH, [(record, seq) for seq, record in claimed])
            db.execute("COMMIT")
            finished += len(claimed)
        assert finished == count
        return count / (time.monotonic() - begin)


def run_no_ops(count: int) -> float:
    """Validated payloads per second, each handled by a coroutine of its own that does nothing."""
    adapter = pydantic.TypeAdapter(Reminder)
    payloads = [json.dumps(reminder(number)).encode() for number in range(count)]
    ran: list[int] = []

    async def handle(payload: bytes) -> None:
        ran.append(adapter.validate_json(payload).number)

    async def handle_all() -> float:
        begin = time.monotonic()
        for start in range(0, count, CLAIM_BATCH):
            await asyncio.gather(*(handle(payload) for payload in payloads[start : start + CLAIM_BATCH]))
        return count / (time.monotonic() - begin)

    rate = asyncio.run(handle_all())
    assert len(ran) == count
    return rate


def run_waiting(count: int, slots: int, pause: float) -> float:
    """Per cent of the ideal, when each of these slots runs one handler that waits after the other, with nothing in between."""

    async def handle() -> None:
        await asyncio.sleep(pause)

    async def handle_all() -> float:
        numbers = iter(range(count))

        async def slot() -> None:
            for _ in numbers:
                # A task of its own, as handlers have.
                await asyncio.create_task(handle())

        begin = time.monotonic()
        await asyncio.gather(*(slot() for _ in range(slots)))
        return count * pause / slots / (time.monotonic() - begin) * 100

    return asyncio.run(handle_all())


def open_file(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(_SCHEMA)
    return db


def fill(db: sqlite3.Connection, count: int, batch: int, first: int = 0) -> None:
    for start in range(0, count, batch):
        rows = [(record(first + number),) for number in range(start, min(start + batch, count))]
        db.execute("BEGIN IMMEDIATE")
        db.executemany(_INSERT, rows)
        db.execute("COMMIT")


def record(number: int) -> bytes:
    """About as long as a task's record."""
    return json.dumps(
        {"id": f"{number:036}", "task_type": "send_reminder", "input": reminder(number), "rest": "." * 110}
    ).encode()
