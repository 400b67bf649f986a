"""Listings: which index leads to what is asked for, and where a page ends."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from datetime import datetime
from typing import Any

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.base import Page, Query
from tenure.stores.cursors import Number, not_of_a_listing
from tenure.stores.sqlite.records import COLUMNS, DAMAGED, ENDED_AT, load, log, statement
from tenure.task import TaskStatus
from tenure.times import from_micros, to_micros


def find(db: sqlite3.Connection, query: Query) -> Page:
    """One page of tasks."""
    by_end = query.status is not None and query.status.ended
    conditions, values = _conditions(query)
    rank = "ended_at, seq" if by_end else "seq"
    if query.cursor is not None:
        conditions.append(f"({rank}) {'>' if query.oldest else '<'} ({', '.join('?' * (1 + by_end))})")
        values += _read_cursor(query.cursor, 1 + by_end)
    order = rank if query.oldest else rank.replace(",", " DESC,") + " DESC"
    # The parts are fixed texts of this module; every value is a parameter.
    statement = (
        f"SELECT {COLUMNS} FROM tenure_tasks {_index(query)}"  # noqa: S608
        f" WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"
    )
    rows = db.execute(statement, (*values, query.limit + 1)).fetchall()
    tasks = []
    for row in rows[: query.limit]:
        try:
            tasks.append(load(row))
        except DamagedRecord as damage:
            log.warning("%s", damage)
    last = rows[query.limit - 1] if len(rows) > query.limit else None
    return Page(tasks, last and json.dumps([last[ENDED_AT], last[0]] if by_end else [last[0]]))


def running_since(db: sqlite3.Connection) -> datetime | None:
    """When the attempt began that has run longest. Only the few that somebody asked to stop say it in their records."""
    first, others = db.execute(statement("running_since")).fetchone()
    began = [] if first is None else [from_micros(first)]
    for seq in json.loads(others):
        row = db.execute(statement("by_number"), (seq,)).fetchone()
        if row is None:
            # It was deleted after the first statement.
            continue
        with contextlib.suppress(DamagedRecord):
            task = load(row[:-1])
            if task.status is TaskStatus.Running:
                began.append(task.started_at or task.created_at)
    return min(began, default=None)


def _index(query: Query) -> str:
    """SQLite's planner has no idea how few tasks run or wait; the status says which index is short."""
    if query.tag is not None or query.status is None:
        return ""
    if query.status.ended:
        return "INDEXED BY tenure_ended"
    if query.ordering_key is not None:
        return "INDEXED BY tenure_ordering"
    return "INDEXED BY tenure_leases" if query.status is TaskStatus.Running else "INDEXED BY tenure_pending"


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    wanted: list[tuple[str, Any]] = [
        ("type = ?", query.type),
        ("queue = ?", query.queue),
        ("worker_id = ? AND ended_at IS NULL", query.worker_id),
        ("ordering_key = ?", query.ordering_key),
        ("cancel_requested = ?", query.cancel_requested or None),
        ("seq IN (SELECT seq FROM tenure_tags WHERE tag = ?)", query.tag),
        ("created_at < ?", query.created_before and to_micros(query.created_before)),
        ("available_at <= ?", query.available_by and to_micros(query.available_by)),
        ("available_at > ?", query.available_after and to_micros(query.available_after)),
        ("attempts >= ?", query.min_attempts or None),
    ]
    # The status is a fixed word, written out so that SQLite can see which partial index fits.
    status = f"status = '{query.status}'" if query.status else f"status <> '{DAMAGED}'"
    # The index's own condition is repeated: older planners do not see that it follows from the status.
    implied = []
    if query.status is not None:
        implied = ["ended_at IS NOT NULL"] if query.status.ended else ["status IN ('pending', 'running')"]
    given = [(condition, value) for condition, value in wanted if value is not None]
    return [status, *implied, *(condition for condition, _ in given)], [value for _, value in given]


def _read_cursor(cursor: str, size: int) -> list[int]:
    try:
        numbers = msgspec.json.decode(cursor, type=list[Number])
    except msgspec.MsgspecError:
        numbers = []
    if len(numbers) != size:
        raise not_of_a_listing(cursor)
    return numbers
