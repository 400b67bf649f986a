"""Everything out of one file and into another, exactly as it is."""

from __future__ import annotations

import sqlite3
from collections import Counter
from datetime import datetime
from typing import Any

import msgspec

from tenure.errors import DamagedRecord
from tenure.idempotency import read_reservation
from tenure.stores.base import Piece
from tenure.stores.cursors import STONES, TASKS, dump_cursor, read_dump_cursor
from tenure.stores.sqlite.bulk import run_many
from tenure.stores.sqlite.inserting import known, reservation
from tenure.stores.sqlite.records import count, insert, let_next_go, load, statement
from tenure.task import OPEN, Task, decode, encode
from tenure.times import to_micros


def dump(db: sqlite3.Connection, cursor: str | None, limit: int) -> Piece:
    """One page of one table; the cursor names the table and the last row."""
    table, last = read_dump_cursor(cursor, 0)
    rows = db.execute(statement(f"dump_{table}"), (last, limit)).fetchall()
    more = len(rows) == limit
    piece = Piece([], [], [], [], dump_cursor(table, rows[-1][0] if more else None, more=more))
    for row in rows:
        try:
            if table == TASKS:
                piece.tasks.append(load(row))
            elif table == STONES:
                piece.stones.append(decode(row[1], row[0]))
            else:
                piece.reservations.append(read_reservation(row[1], row[0]))
        except DamagedRecord as damage:
            piece.damaged.append(damage.task_id)
    return piece


def restore(db: sqlite3.Connection, piece: Piece, now: datetime) -> Piece:
    """Insert what is absent; the numbers of the new rows follow the order of the piece."""
    there = Piece([], [], [])
    tasks = []
    for task in piece.tasks:
        found = known(db, task.id, now)
        if found is None:
            tasks.append(task)
        else:
            there.tasks.append(found)
    _insert(db, tasks)
    for stone in piece.stones:
        found = known(db, stone.id, now)
        if found is None:
            db.execute(statement("set_stone"), (stone.id, to_micros(stone.remember_until or now), encode(stone)))
        else:
            there.stones.append(found)
    for record in piece.reservations:
        held = reservation(db, record.identity)
        if held is None or held.is_stale_at(now):
            expires_at = None if record.expires_at is None else to_micros(record.expires_at)
            db.execute(statement("reserve"), (record.identity, expires_at, msgspec.json.encode(record)))
        else:
            there.reservations.append(held)
    return there


def _insert(db: sqlite3.Connection, tasks: list[Task]) -> None:
    insert(db, "restore", tasks, _row)
    for task in tasks:
        if task.tags:
            (seq, *_) = db.execute(statement("get"), (task.id,)).fetchone()
            run_many(db, statement("tag"), [(tag, seq) for tag in task.tags])
    count(db, Counter((task.queue, task.type, task.status.value) for task in tasks))
    for key in {task.ordering_key for task in tasks if task.ordering_key is not None and task.status in OPEN}:
        let_next_go(db, key)


def _row(task: Task) -> tuple[Any, ...]:
    return (
        task.id,
        task.queue,
        task.type,
        task.priority,
        task.ordering_key is not None,
        to_micros(task.created_at),
        to_micros(task.available_at),
        _micros(task.expires_at),
        task.ordering_key,
        task.version,
        task.status,
        task.attempts,
        task.fence,
        _micros(task.lease_expires_at),
        _micros(task.ended_at),
        task.worker_id,
        task.cancel_requested,
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
