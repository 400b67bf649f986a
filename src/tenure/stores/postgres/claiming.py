"""Finding what can run, and taking it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import Change, Want, can_claim, claimed
from tenure.stores.postgres.changing import kinds, overdue, set_aside, swap
from tenure.stores.postgres.records import ANOTHER, Database, Statements, column, micros, plain, read
from tenure.task import Task, decode_many

OVERDUE_LIMIT = 1000
LEVELS, ALL_LEVELS = 64, 100_000
"""How many priorities of each queue and type a search begins with, and more than there are."""


class Answer(NamedTuple):
    """What a claim found: when, what comes first, the tasks, records that cannot be read, when the next is due."""

    now: datetime
    turns: bool
    overdue: bool
    tasks: list[Task]
    damages: list[DamagedRecord]
    next_due: datetime | None


async def take(
    db: Database, statements: Statements, want: Want, now: datetime | None, *, anyway: bool = False
) -> Sequence[Any]:
    """Take what is due; the rows are for `read_answer`, which needs no connection any more.

    When something else comes first, nothing is taken, unless it is asked for `anyway`.
    """
    words = (
        now,
        [column(name) for name in dict.fromkeys(want.queues)],
        [column(name) for name in want.types],
        list(want.types.values()),
        want.count,
        micros(want.lease),
        column(want.worker_id),
        anyway,
    )
    rows = await db.fetch(statements("claim"), *words, LEVELS)
    if len(rows) == 1 and not rows[0][-1]:
        rows = await db.fetch(statements("claim"), *words, ALL_LEVELS)
    return rows


async def read_answer(rows: Sequence[Any], want: Want) -> Answer:
    """What a claim has taken. The tasks are made by the same rule that makes them when they are read again."""
    _, _, _, now, turns, late, next_due, _ = rows[0]
    ids = [plain(row[0]) for row in rows[1:]]
    records = [row[1] for row in rows[1:]]
    before = [row[2] - 1 for row in rows[1:]]
    tasks = decode_many(b"[" + b",".join(records) + b"]")
    damages: list[DamagedRecord] = []
    if (
        [task.id for task in tasks] != ids
        or [task.version for task in tasks] != before
        or not all(can_claim(task, want, now) for task in tasks)
    ):
        tasks, damages = _read_one_by_one(ids, records, before, want, now)
    return Answer(now, turns, late, await claimed(tasks, want, now), damages, next_due)


def _read_one_by_one(
    ids: list[str], records: list[bytes], versions: list[int], want: Want, now: datetime
) -> tuple[list[Task], list[DamagedRecord]]:
    tasks, damages = [], []
    for task_id, record, version in zip(ids, records, versions, strict=True):
        try:
            task = read(record, task_id, version)
            if not can_claim(task, want, now):
                raise DamagedRecord(task_id, ANOTHER)
        except DamagedRecord as damage:
            damages.append(damage)
        else:
            tasks.append(task)
    return tasks, damages


async def get_ready(db: Database, statements: Statements, want: Want) -> None:
    """Let a connection know what a worker sends all the time: it would take as long as thousands of tasks when they are there."""
    await take(db, statements, Want(want.worker_id, want.queues, want.types, 0, want.lease), None)
    await db.fetch(statements("finish"), (), (), (), ())


async def settle_overdue(db: Database, statements: Statements, now: datetime) -> list[Task]:
    """End claims that have lapsed and tasks that are late; what another settles at this moment is left to it."""
    tasks, damages = await overdue(db, statements, now, OVERDUE_LIMIT, take=True)
    for damage in damages:
        await set_aside(db, statements, damage, now)
    changes = [Change(task, after) for task in tasks if (after := lifecycle.overdue(task, now))]
    done = await swap(db, statements, changes, kinds(changes))
    return [change.after for change, made in zip(changes, done, strict=True) if made]
