"""Replacing versions, renewing leases, forgetting what is old."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.lifecycle import Completed, Running, later
from tenure.payload import NULL
from tenure.stores.base import Change, Hold, Renewal, remembered
from tenure.stores.sqlite.bulk import listed, run_many
from tenure.stores.sqlite.records import ANOTHER, Lane, count, let_next_go, load, set_aside, statement
from tenure.task import OPEN, Task, TaskStatus, encode
from tenure.times import to_micros

Swap = Callable[[sqlite3.Connection, Sequence[Change]], list[bool]]


class Misfit(Exception):
    """Some version of a batch was no longer the one it was computed from. Nothing was written."""


def swap(db: sqlite3.Connection, changes: Sequence[Change]) -> list[bool]:
    """Replace all versions in few statements, or none: nearly always every version fits.

    Most tasks are claimed once and complete: of those, columns can say all that happened.
    """
    finished: defaultdict[tuple[int, datetime | None], list[str]] = defaultdict(list)
    returned: list[tuple[Any, ...]] = []
    changed: list[Change] = []
    for change in changes:
        before, after = change.before, change.after
        if after.status is not Completed or before.status is not Running or before.progress is not None:
            changed.append(change)
        elif after.output_json is not NULL:
            returned.append(_return_row(change))
        else:
            finished[before.version, after.completed_at].append(after.id)
    rows, records = _versions(changed)
    number = run_many(db, statement("return"), returned) + run_many(db, statement("swap"), rows)
    for (version, moment), ids in finished.items():
        number += db.execute(statement("finish"), (_stamp(moment), version, listed(ids))).rowcount
    if number != len(changes):
        raise Misfit
    run_many(db, statement("keep_anew"), records)
    _follow(db, changes)
    return [True] * len(changes)


def swap_each(db: sqlite3.Connection, changes: Sequence[Change]) -> list[bool]:
    """Replace the versions that fit, one by one."""
    done = []
    for change in changes:
        rows, records = _versions([change])
        done.append(run_many(db, statement("swap"), rows) == 1)
        if done[-1]:
            run_many(db, statement("keep_anew"), records)
    _follow(db, [change for change, fitted in zip(changes, done, strict=True) if fitted])
    return done


def _follow(db: sqlite3.Connection, made: Sequence[Change]) -> None:
    """Keep the counts, and let the next of each ordering key go."""
    counts: Counter[Lane] = Counter()
    moves = Counter([(one.before.queue, one.before.type, one.before.status, one.after.status) for one in made])
    for (queue, type_, was, is_), number in moves.items():
        counts[queue, type_, was] -= number
        counts[queue, type_, is_] += number
    count(db, counts)
    keys = {
        key: None
        for one in made
        if (key := one.after.ordering_key) is not None and (one.before.status in OPEN or one.after.status in OPEN)
    }
    for key in keys:
        let_next_go(db, key)


def renew(db: sqlite3.Connection, renewals: Sequence[Renewal], now: datetime) -> list[Hold]:
    """Extend the leases that are still held; which ones are not is only looked up if any is not."""
    rows = [
        (
            to_micros(later(now, renewal.lease)),
            msgspec.json.encode(renewal.progress) if renewal.progress else None,
            renewal.task_id,
            renewal.fence,
        )
        for renewal in renewals
    ]
    held = [True] * len(rows)
    if run_many(db, statement("renew"), rows) != len(rows):
        held = [db.execute(statement("renew"), row).rowcount == 1 for row in rows]
    asked = _asked_to_stop(db, [renewal.task_id for renewal in renewals])
    return [
        Hold.Lost if not holds else Hold.CancelRequested if renewal.task_id in asked else Hold.Held
        for renewal, holds in zip(renewals, held, strict=True)
    ]


def _asked_to_stop(db: sqlite3.Connection, ids: list[str]) -> set[str]:
    (found,) = db.execute(statement("asked_to_stop"), (listed(ids),)).fetchone()
    return set(msgspec.json.decode(found))


_OVERDUE = {TaskStatus.Running: "lapsed", TaskStatus.Pending: "late"}


def overdue(
    db: sqlite3.Connection, now: datetime, limit: int, only: TaskStatus | None = None
) -> tuple[list[Task], list[tuple[int, DamagedRecord]]]:
    """Tasks that time has caught up with, longest overdue first; and records that cannot be read."""
    stamp = to_micros(now)
    names = [name for status, name in _OVERDUE.items() if only in (None, status)]
    rows = chain.from_iterable(db.execute(statement(name), (stamp, limit)) for name in names)
    tasks, damages = [], []
    for row in sorted(rows, key=lambda row: (row[3], row[0]))[:limit]:
        try:
            task = load(row[:-1])
            if task.ordering_key != row[-1] or lifecycle.overdue(task, now) is None:
                raise DamagedRecord(task.id, ANOTHER)
            tasks.append(task)
        except DamagedRecord as damage:
            damages.append((row[0], damage))
    return tasks, damages


def count_overdue(
    db: sqlite3.Connection, now: datetime, limit: int, only: TaskStatus, since: datetime | None
) -> dict[str, int]:
    """How many of them there are of each type, by their columns alone."""
    if only not in _OVERDUE:
        return {}
    moments = (None if since is None else to_micros(since), to_micros(now))
    return dict(db.execute(statement(f"count_{_OVERDUE[only]}"), (*moments, limit)).fetchall())


def prune(db: sqlite3.Connection, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
    """Forget ended tasks that were kept long enough, and what else has outlived its time."""
    pruned: list[tuple[int, Task]] = []
    for status, moment in ended_before.items():
        rows = db.execute(statement("prunable"), (status, to_micros(moment), limit - len(pruned))).fetchall()
        for row in rows:
            try:
                pruned.append((row[0], load(row)))
            except DamagedRecord as damage:
                set_aside(db, row[0], damage, now)
    _delete(db, pruned, now)
    forgotten = [
        db.execute(statement(name), (to_micros(now), limit)).rowcount for name in ("prune_reservations", "prune_stones")
    ]
    return len(pruned) + sum(forgotten)


def forget(db: sqlite3.Connection, tasks: Sequence[Task], now: datetime) -> list[bool]:
    """Delete these versions of ended tasks."""
    rows = [db.execute(statement("ended_version"), (task.id, task.version)).fetchone() for task in tasks]
    _delete(db, [(row[0], task) for row, task in zip(rows, tasks, strict=True) if row is not None], now)
    return [row is not None for row in rows]


def _delete(db: sqlite3.Connection, ended: list[tuple[int, Task]], now: datetime) -> None:
    stones = [stone for _, task in ended if (stone := remembered(task, now))]
    run_many(
        db, statement("set_stone"), [(task.id, to_micros(task.remember_until or now), encode(task)) for task in stones]
    )
    for name in ("delete_tasks", "delete_records"):
        db.execute(statement(name), (listed([seq for seq, _ in ended]),))
    run_many(db, statement("delete_tags"), [(tag, seq) for seq, task in ended for tag in task.tags])
    count(db, Counter({lane: -number for lane, number in Counter(_lane(task) for _, task in ended).items()}))


def _lane(task: Task) -> Lane:
    return task.queue, task.type, task.status


def _return_row(change: Change) -> tuple[Any, ...]:
    task = change.after
    return task.id, change.before.version, _stamp(task.completed_at), bytearray(task.output_json)


def _stamp(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _versions(changes: Sequence[Change]) -> tuple[list[tuple[Any, ...]], list[tuple[str, bytes]]]:
    """The rows of the next versions, and their records."""
    return [_swap_row(change) for change in changes], [(change.after.id, encode(change.after)) for change in changes]


def _swap_row(change: Change) -> tuple[Any, ...]:
    before, task = change.before, change.after
    return (
        task.version,
        task.status,
        task.attempts,
        task.fence,
        None if task.available_at is before.available_at else to_micros(task.available_at),
        None if (late := task.expires_at) is before.expires_at or late is None else to_micros(late),
        _stamp(task.lease_expires_at),
        _stamp(task.ended_at),
        task.worker_id,
        task.cancel_requested,
        task.id,
        before.version,
        to_micros(before.lease_expires_at) if change.if_unrenewed and before.lease_expires_at else None,
    )
