"""Finding what can run, and taking it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import Change, Want, can_claim
from tenure.stores.postgres.changing import kinds, overdue, set_aside, swap
from tenure.stores.postgres.records import Database, Statements, column, micros, plain
from tenure.task import Task, decode

OVERDUE_LIMIT = 1000


class Answer(NamedTuple):
    """What a claim found: when, what comes first, the tasks, records that cannot be read, when the next is due."""

    now: datetime
    turns: bool
    overdue: bool
    tasks: list[Task]
    damages: list[DamagedRecord]
    next_due: datetime | None


async def claim(
    db: Database, statements: Statements, want: Want, now: datetime | None, *, anyway: bool = False
) -> Answer:
    """Take what is due. The tasks are made by the same rule that makes them when they are read again.

    When something else comes first, nothing is taken, unless it is asked for `anyway`.
    """
    rows = await db.fetch(
        statements("claim"),
        now,
        [column(name) for name in dict.fromkeys(want.queues)],
        [column(name) for name in want.types],
        list(want.types.values()),
        want.count,
        micros(want.lease),
        column(want.worker_id),
        anyway,
    )
    return _read(rows, want)


def _read(rows: Sequence[Any], want: Want) -> Answer:
    now, turns, late, first, _, _, next_due = rows[0]
    tasks: list[Task] = []
    damages = []
    for _, _, _, _, task_id, record, _ in rows if first is not None else ():
        try:
            task = decode(record, plain(task_id))
            if not can_claim(task, want, now):
                raise DamagedRecord(plain(task_id), "it is another one than its row says")
        except DamagedRecord as damage:
            damages.append(damage)
            continue
        tasks.append(
            lifecycle.claim(
                task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type]
            )
        )  # fmt: skip
    return Answer(now, turns, late, tasks, damages, next_due)


async def settle_overdue(db: Database, statements: Statements, now: datetime) -> list[Task]:
    """End claims that have lapsed and tasks that are late; what another settles at this moment is left to it."""
    tasks, damages = await overdue(db, statements, now, OVERDUE_LIMIT, take=True)
    for damage in damages:
        await set_aside(db, statements, damage, now)
    changes = [Change(task, after) for task in tasks if (after := lifecycle.overdue(task, now))]
    done = await swap(db, statements, kinds(changes))
    return [change.after for change in changes if done[change.after.id, change.after.version]]
