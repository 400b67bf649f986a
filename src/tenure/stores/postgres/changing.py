"""Replacing versions, renewing leases, forgetting what is old."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.lifecycle import Completed, Running
from tenure.payload import NULL
from tenure.stores.base import Change, Hold, Note, Renewal, remembered
from tenure.stores.postgres.noting import put_note
from tenure.stores.postgres.records import (
    ANOTHER,
    DAMAGED,
    Database,
    Statements,
    column,
    columns,
    load,
    load_open,
    log,
    micros,
    optional_key,
    plain,
)
from tenure.task import Task, TaskStatus, encode

Lane = tuple[str, str, str]


def kinds(changes: Sequence[Change]) -> list[tuple[str, list[int]]]:
    """The numbers of the changes by the statement that makes them: for nearly every batch it is a single one.

    Two changes of one task cannot be made by one statement: then each goes alone, in order.
    """
    if len({change.after.id for change in changes}) < len(changes):
        return [(_kind(change), [number]) for number, change in enumerate(changes)]
    groups: defaultdict[str, list[int]] = defaultdict(list)
    # In the order of their ids, as everywhere: whoever locks rows in the same order never waits in a circle.
    for number in sorted(range(len(changes)), key=lambda number: changes[number].after.id):
        groups[_kind(changes[number])].append(number)
    return list(groups.items())


def _kind(change: Change) -> str:
    before, after = change.before, change.after
    if after.status is Completed and before.status is Running and before.progress is None:
        # Most tasks are claimed once and complete: then columns can say all that happened.
        return "finish"
    if before.status.ended:
        return "swap_ended" if after.status.ended else "swap_to_open"
    return "swap_to_ended" if after.status.ended else "swap_open"


async def swap(
    db: Database, statements: Statements, changes: Sequence[Change], groups: Sequence[tuple[str, list[int]]]
) -> list[bool]:
    """Make changes, by their `kinds`; answers which of them were made."""
    done = [True] * len(changes)
    for kind, numbers in groups:
        rows = [_ROWS[kind](changes[number]) for number in numbers]
        ((ids, _),) = await db.fetch(statements(kind), *columns(rows, 0, once=_ALIKE if kind == "finish" else ()))
        if ids is not None:
            made = {plain(task_id) for task_id in ids}
            for number in numbers:
                done[number] = changes[number].after.id in made
    return done


_ALIKE = (1, 2)
"""Version and end, which the completions of a batch mostly share."""


def _common(change: Change) -> tuple[Any, ...]:
    before, after = change.before, change.after
    return (column(after.id), before.version, before.status.value, after.version, after.status.value)


def _open_row(change: Change) -> tuple[Any, ...]:
    before, task = change.before, change.after
    return (
        column(task.id),
        before.version,
        before.lease_expires_at if change.if_unrenewed else None,
        before.status.value,
        task.version,
        task.status.value,
        task.attempts,
        task.fence,
        task.available_at,
        task.expires_at,
        None if task.worker_id is None else column(task.worker_id),
        task.lease_expires_at,
        task.started_at or task.created_at,
        task.cancel_requested,
        encode(task),
    )


def _to_ended_row(change: Change) -> tuple[Any, ...]:
    before, task = change.before, change.after
    return (
        column(task.id),
        before.version,
        task.status.value,
        task.attempts,
        task.ended_at,
        before.lease_expires_at if change.if_unrenewed else None,
        task.cancel_requested,
        encode(task),
    )


def _ended_row(change: Change) -> tuple[Any, ...]:
    return (*_common(change), change.after.ended_at, encode(change.after))


def _to_open_row(change: Change) -> tuple[Any, ...]:
    task = change.after
    more = (task.attempts, task.fence, task.available_at, task.expires_at, task.cancel_requested)
    return (*_common(change), *more, encode(task))


def _finish_row(change: Change) -> tuple[Any, ...]:
    task = change.after
    output = None if task.output_json is NULL else bytes(task.output_json)
    return column(task.id), change.before.version, task.completed_at, output


_ROWS = {
    "finish": _finish_row,
    "swap_open": _open_row,
    "swap_to_ended": _to_ended_row,
    "swap_ended": _ended_row,
    "swap_to_open": _to_open_row,
}


async def renew(db: Database, statements: Statements, renewals: Sequence[Renewal], now: datetime | None) -> list[Hold]:
    """Extend the leases that are still held."""
    rows = [
        (
            column(renewal.task_id),
            renewal.fence,
            micros(renewal.lease),
            msgspec.json.encode(renewal.progress) if renewal.progress else None,
        )
        for renewal in sorted(renewals, key=lambda renewal: renewal.task_id)
    ]
    found = await db.fetch(statements("renew"), now, *columns(rows, 4))
    held = {plain(task_id): Hold.CancelRequested if asked else Hold.Held for task_id, asked in found}
    return [held.get(renewal.task_id, Hold.Lost) for renewal in renewals]


_OVERDUE = {TaskStatus.Running: "lapsed", TaskStatus.Pending: "late"}


async def overdue(
    db: Database,
    statements: Statements,
    now: datetime,
    limit: int,
    only: TaskStatus | None = None,
    *,
    take: bool = False,
) -> tuple[list[Task], list[DamagedRecord]]:
    """Tasks that time has caught up with, longest overdue first; and records that cannot be read."""
    rows: list[Any] = []
    for name in [name for status, name in _OVERDUE.items() if only in (None, status)]:
        rows += await db.fetch(statements(f"take_{name}" if take else name), now, limit)
    tasks, damages = [], []
    for row in sorted(rows, key=lambda row: (row[3], row[8]))[:limit]:
        try:
            task = load_open(row)
            if optional_key(task.ordering_key) != row[9] or lifecycle.overdue(task, now) is None:
                raise DamagedRecord(task.id, ANOTHER)
            tasks.append(task)
        except DamagedRecord as damage:
            damages.append(damage)
    return tasks, damages


async def count_overdue(
    db: Database, statements: Statements, now: datetime, limit: int, only: TaskStatus, since: datetime | None
) -> dict[str, int]:
    """How many of them there are of each type, by their columns alone."""
    if only not in _OVERDUE:
        return {}
    rows = await db.fetch(statements(f"count_{_OVERDUE[only]}"), since, now, limit)
    return {plain(type_): count for type_, count in rows}


async def prune(
    db: Database, statements: Statements, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int
) -> int:
    """Forget ended tasks that were kept long enough, and what else has outlived its time."""
    pruned: list[tuple[int, Task]] = []
    for status, moment in ended_before.items():
        for row in await db.fetch(statements("prunable"), status.value, moment, limit - len(pruned)):
            try:
                pruned.append((row[8], load(row)))
            except DamagedRecord as damage:
                await set_aside(db, statements, damage, now)
    await _delete(db, statements, pruned, now)
    forgotten = [
        len(await db.fetch(statements(name), now, limit)) for name in ("prune_reservations", "prune_stones")
    ]  # fmt: skip
    await db.fetch(statements("prune_listeners"))
    return len(pruned) + sum(forgotten)


async def forget(db: Database, statements: Statements, tasks: Sequence[Task], now: datetime) -> list[bool]:
    """Delete these versions of ended tasks."""
    rows = [(column(task.id), task.version) for task in tasks]
    found = {plain(task_id): seq for seq, task_id in await db.fetch(statements("ended_versions"), *columns(rows, 2))}
    by_id = {task.id: task for task in tasks}
    await _delete(db, statements, [(seq, by_id[task_id]) for task_id, seq in found.items()], now)
    return [task.id in found for task in tasks]


async def _delete(db: Database, statements: Statements, ended: list[tuple[int, Task]], now: datetime) -> None:
    if not ended:
        return
    stones = [stone for _, task in ended if (stone := remembered(task, now))]
    if stones:
        await set_stones(db, statements, stones, now)
    tags = [(column(tag), seq) for seq, task in ended for tag in task.tags]
    await db.fetch(statements("delete_ended"), [column(task.id) for _, task in ended], *columns(tags, 2))
    lanes = Counter((task.queue, task.type, task.status.value) for _, task in ended)
    await count(db, statements, {lane: -number for lane, number in lanes.items()})


async def set_stones(db: Database, statements: Statements, stones: Iterable[Task], now: datetime) -> None:
    """Leave stones for tasks that are gone."""
    rows = [(column(stone.id), stone.remember_until or now, encode(stone)) for stone in stones]
    await db.fetch(statements("set_stones"), *columns(rows, 3))


async def count(db: Database, statements: Statements, counts: Mapping[Lane, int]) -> None:
    """Add to the counts of queues, types and statuses."""
    rows = [(column(queue), column(type_), status, number) for (queue, type_, status), number in counts.items()]
    await db.fetch(statements("count_up"), *columns(rows, 4))


async def set_aside(db: Database, statements: Statements, damage: DamagedRecord, now: datetime | None) -> None:
    """Take a record that nobody can read out of the way of the others, and leave a note about it."""
    for name in ("set_aside", "set_ended_aside"):
        for queue, type_, key, status in await db.fetch(statements(name), column(damage.task_id)):
            log.error("%s", damage)
            lane = plain(queue), plain(type_)
            await count(db, statements, {(*lane, status): -1, (*lane, DAMAGED): 1})
            if key is not None:
                await db.fetch(statements("add_turns"), [key])
            await put_note(db, statements, Note(DAMAGED, damage.task_id, {"why": str(damage)}), None, now)
            return
