"""Everything out of one schema and into another, exactly as it is."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from tenure.errors import DamagedRecord
from tenure.idempotency import read_reservation
from tenure.stores.base import Piece
from tenure.stores.cursors import STONES, TASKS, dump_cursor, read_dump_cursor
from tenure.stores.postgres.changing import count, set_stones
from tenure.stores.postgres.inserting import known, reservation_row, reservations
from tenure.stores.postgres.records import Database, Statements, column, columns, key_column, load, optional_key, plain
from tenure.task import OPEN, Task, decode, encode


async def dump(db: Database, statements: Statements, cursor: str | None, limit: int) -> Piece:
    """One page of one table; the cursor names the table and the last row."""
    table, last = read_dump_cursor(cursor, 0)
    rows = await db.fetch(statements(f"dump_{table}"), last, limit)
    more = len(rows) == limit
    piece = Piece([], [], [], [], dump_cursor(table, rows[-1][8 if table == TASKS else 0] if more else None, more=more))
    for row in rows:
        try:
            if table == TASKS:
                piece.tasks.append(load(row))
            elif table == STONES:
                piece.stones.append(decode(row[1], plain(row[0])))
            else:
                piece.reservations.append(read_reservation(row[1], plain(row[0])))
        except DamagedRecord as damage:
            piece.damaged.append(damage.task_id)
    return piece


async def restore(db: Database, statements: Statements, piece: Piece, now: datetime) -> Piece:
    """Insert what is absent; the numbers of the new rows follow the order of the piece."""
    there = Piece([], [], [])
    if piece.stones:
        await db.fetch(statements("hold_stones"))
    found = await known(db, statements, [task.id for task in (*piece.tasks, *piece.stones)], now)
    there.tasks.extend(found[task.id] for task in piece.tasks if task.id in found)
    there.stones.extend(found[stone.id] for stone in piece.stones if stone.id in found)
    await _insert(db, statements, [task for task in piece.tasks if task.id not in found])
    await set_stones(db, statements, [stone for stone in piece.stones if stone.id not in found], now)
    await _restore_reservations(db, statements, piece, there, now)
    return there


async def _restore_reservations(
    db: Database, statements: Statements, piece: Piece, there: Piece, now: datetime
) -> None:
    """Write what is absent or outdated. Whoever comes second waits for the first to commit, and is told of its record."""
    wanted = {key_column(reservation.identity): reservation for reservation in reversed(piece.reservations)}
    rows = [reservation_row(reservation) for reservation in wanted.values()]
    new = {identity for (identity,) in await db.fetch(statements("reserve"), *columns(rows, 3))}
    others = [identity for identity in wanted if identity not in new]
    held = await reservations(db, statements, others)
    there.reservations.extend(reservation for reservation in held.values() if not reservation.is_stale_at(now))
    outdated = [identity for identity in others if identity not in held or held[identity].is_stale_at(now)]
    await db.fetch(statements("take_over"), *columns([reservation_row(wanted[identity]) for identity in outdated], 3))


async def _insert(db: Database, statements: Statements, tasks: list[Task]) -> None:
    if not tasks:
        return
    ((numbers,),) = await db.fetch(statements("next_numbers"), len(tasks))
    numbered = list(zip(tasks, sorted(numbers), strict=True))
    open_rows = [_open_row(task, seq) for task, seq in numbered if task.status in OPEN]
    ended_rows = [_ended_row(task, seq) for task, seq in numbered if task.status not in OPEN]
    await db.fetch(statements("restore"), *columns(open_rows, 18))
    await db.fetch(statements("restore_ended"), *columns(ended_rows, 15))
    tags = [(column(tag), seq) for task, seq in numbered for tag in task.tags]
    await db.fetch(statements("add_tags"), *columns(tags, 2))
    await count(db, statements, Counter((task.queue, task.type, task.status.value) for task in tasks))
    keys = [key_column(task.ordering_key) for task in tasks if task.ordering_key is not None and task.status in OPEN]
    await db.fetch(statements("add_turns"), keys)


def _open_row(task: Task, seq: int) -> tuple[Any, ...]:
    return (
        column(task.id),
        column(task.queue),
        column(task.type),
        task.priority,
        task.created_at,
        task.available_at,
        task.expires_at,
        optional_key(task.ordering_key),
        encode(task),
        task.version,
        task.status.value,
        task.attempts,
        task.fence,
        task.lease_expires_at,
        None if task.worker_id is None else column(task.worker_id),
        (task.started_at or task.created_at) if task.worker_id is not None else None,
        task.cancel_requested,
        seq,
    )


def _ended_row(task: Task, seq: int) -> tuple[Any, ...]:
    return (
        column(task.id),
        column(task.queue),
        column(task.type),
        task.priority,
        task.created_at,
        task.available_at,
        optional_key(task.ordering_key),
        encode(task),
        task.version,
        task.status.value,
        task.attempts,
        task.fence,
        task.ended_at,
        task.cancel_requested,
        seq,
    )
