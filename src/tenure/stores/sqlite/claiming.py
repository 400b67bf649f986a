"""Finding what can run, and taking it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import PAUSE, Change, Claimed, Want, can_claim, paused_queues
from tenure.stores.sqlite.bulk import listed
from tenure.stores.sqlite.changing import Swap, overdue
from tenure.stores.sqlite.records import ANOTHER, Lane, count, notes, set_aside, statement
from tenure.task import Task, decode, decode_many
from tenure.times import from_micros, to_micros

OVERDUE_LIMIT = 1000


def take(db: sqlite3.Connection, want: Want, now: datetime, swap: Swap) -> Claimed:
    """Settle what is overdue, then take what is due, all in one transaction.

    The tasks are returned as they were found; `lifecycle.claim` says what they are now.
    """
    settled = _settle_overdue(db, now, swap)
    numbers, found = _due(db, want, now, want.count)
    seqs: defaultdict[int | None, list[int]] = defaultdict(list)
    for seq, task in zip(numbers, found, strict=True):
        seqs[want.types[task.type]].append(seq)
    counts: Counter[Lane] = Counter()
    for (queue, type_), number in Counter([(task.queue, task.type) for task in found]).items():
        counts[queue, type_, "pending"] -= number
        counts[queue, type_, "running"] += number
    claim = {
        "now": to_micros(now),
        "lease_end": to_micros(lifecycle.later(now, want.lease)),
        "worker_id": want.worker_id,
    }
    for policy_max, taken in seqs.items():
        db.execute(statement("claim"), {**claim, "policy_max": policy_max, "seqs": listed(taken)})
    count(db, counts)
    return Claimed(found, settled, None if found else _next_due(db, want, now))


def _next_due(db: sqlite3.Connection, want: Want, now: datetime) -> datetime | None:
    """When the next task is due that this worker could take."""
    (first,) = db.execute(_search("next_due"), _search_for(db, want, now)).fetchone()
    return None if first is None else from_micros(first)


def _due(db: sqlite3.Connection, want: Want, now: datetime, limit: int) -> tuple[list[int], list[Task]]:
    """The tasks that run next, in order. One that cannot be read is set aside, and the search is made again."""
    while True:
        try:
            seqs, records, ids, keys, versions = db.execute(
                _search("due"), _search_for(db, want, now, count=limit)
            ).fetchone()
        except sqlite3.DataError:
            # Together they are larger than a value of SQLite may be; fewer are not.
            if limit == 1:
                raise
            limit //= 2
            continue
        if seqs is None:
            return [], []
        numbers = list(map(int, seqs.split(",")))
        # Nothing at all, if each of them has lost what was kept apart.
        tasks = decode_many(records or b"")
        if (
            "\0".join([task.id for task in tasks]) == ids
            and "\0".join([task.ordering_key for task in tasks if task.ordering_key is not None]) == (keys or "")
            and sum([task.version for task in tasks]) == versions
            and all(can_claim(task, want, now) for task in tasks)
        ):
            return numbers, tasks
        tasks = _one_by_one(db, numbers, want, now)
        if len(tasks) == len(numbers):
            return numbers, tasks


def _one_by_one(db: sqlite3.Connection, numbers: list[int], want: Want, now: datetime) -> list[Task]:
    """Read what cannot be read together, and set the damaged ones aside.

    In an application's file whose texts are UTF-16, all of them are sound.
    """
    readable = []
    for seq in numbers:
        row = db.execute(statement("claimable"), (seq,)).fetchone()
        task_id, key, version, record = row
        try:
            task = decode(record or b"", task_id)
            if (task.id, task.ordering_key, task.version) != (task_id, key, version) or not can_claim(task, want, now):
                raise DamagedRecord(task_id, ANOTHER)
            readable.append(task)
        except DamagedRecord as damage:
            set_aside(db, seq, damage, now)
    return readable


def _search(name: str) -> str:
    return f"{statement('lane')}\n{statement(name)}"


def _search_for(db: sqlite3.Connection, want: Want, now: datetime, **more: int) -> dict[str, Any]:
    queues: Iterable[str] = want.queues
    if pauses := notes(db, PAUSE):
        queues = set(want.queues) - paused_queues(pauses, now)
    return {
        "queues": json.dumps(sorted(set(queues))),
        "types": json.dumps(list(want.types)),
        "now": to_micros(now),
        **more,
    }


def _settle_overdue(db: sqlite3.Connection, now: datetime, swap: Swap) -> list[Task]:
    if not db.execute(statement("overdue"), {"now": to_micros(now)}).fetchone()[0]:
        return []
    tasks, damages = overdue(db, now, OVERDUE_LIMIT)
    for seq, damage in damages:
        set_aside(db, seq, damage, now)
    changes = [Change(task, after) for task in tasks if (after := lifecycle.overdue(task, now))]
    swap(db, changes)
    return [change.after for change in changes]
