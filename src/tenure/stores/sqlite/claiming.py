"""Finding what can run, and taking it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import PAUSE, Change, Want, can_claim, claimed, paused_queues
from tenure.stores.sqlite.changing import Swap, overdue
from tenure.stores.sqlite.records import ANOTHER, Lane, count, load, notes, set_aside, statement
from tenure.task import Task, TaskStatus, decode_many
from tenure.times import from_micros, to_micros

OVERDUE_LIMIT = 1000
LEVELS, ALL_LEVELS = 64, 100_000
"""How many priorities of each queue and type a search begins with, and more than there are."""


class Found(NamedTuple):
    """Tasks that are due, in order, as their rows have them: nobody has read the records yet."""

    seqs: list[str]
    lanes: list[str]
    """Which of the worker's queues and types each belongs to, by number."""
    records: bytes
    ids: str
    keys: str
    versions: int


class Taken(NamedTuple):
    """What a claim has done."""

    now: datetime
    found: Found | None
    settled: list[Task]
    next_due: datetime | None


def take(db: sqlite3.Connection, want: Want, now: datetime, swap: Swap) -> Taken:
    """Settle what is overdue, then take what is due, all in one transaction.

    The records are read after it, by `read`: they take as long as all the rest, and others wait for the file meanwhile.
    """
    late, paused = db.execute(statement("before_claim"), {"now": to_micros(now), "pause": PAUSE}).fetchone()
    settled = _settle_overdue(db, now, swap) if late else []
    search = _Search(db, want, now, paused=paused)
    found = search.due(want.count)
    if found is None:
        return Taken(now, None, settled, search.next_due())
    lanes: list[tuple[str, str]] = search.lanes
    seqs: defaultdict[int | None, list[str]] = defaultdict(list)
    policies = [want.types[type_] for _, type_ in lanes]
    for seq, lane in zip(found.seqs, found.lanes, strict=True):
        seqs[policies[int(lane)]].append(seq)
    claim = {
        "now": to_micros(now),
        "lease_end": to_micros(lifecycle.later(now, want.lease)),
        "worker_id": want.worker_id,
    }
    for policy_max, taken in seqs.items():
        db.execute(statement("claim"), {**claim, "policy_max": policy_max, "seqs": f"[{','.join(taken)}]"})
    counts: Counter[Lane] = Counter()
    for lane, number in Counter(found.lanes).items():
        counts[*lanes[int(lane)], "pending"] -= number
        counts[*lanes[int(lane)], "running"] += number
    count(db, counts)
    return Taken(now, found, settled, None)


async def read(found: Found, want: Want, now: datetime) -> list[Task] | None:
    """The tasks that were taken; None if any of the records is not what its row says."""
    tasks = decode_many(found.records)
    if (
        "\0".join([task.id for task in tasks]) != found.ids
        or "\0".join([task.ordering_key for task in tasks if task.ordering_key is not None]) != found.keys
        or sum([task.version for task in tasks]) != found.versions
        or not all(can_claim(task, want, now) for task in tasks)
    ):
        return None
    return await claimed(tasks, want, now)


def read_one_by_one(db: sqlite3.Connection, found: Found, want: Want, now: datetime) -> list[Task]:
    """The tasks that were taken and can be read; the others are set aside.

    In an application's file whose texts are UTF-16, all of them are sound.
    """
    readable = []
    for seq in map(int, found.seqs):
        *row, key = db.execute(statement("by_number"), (seq,)).fetchone()
        try:
            task = load(tuple(row))
            if task.ordering_key != key or task.type not in want.types:
                raise DamagedRecord(task.id, ANOTHER)
        except DamagedRecord as damage:
            set_aside(db, seq, damage, now)
        else:
            if task.status is TaskStatus.Running and task.worker_id == want.worker_id:
                readable.append(task)
    return readable


class _Search:
    """What a worker looks for."""

    def __init__(self, db: sqlite3.Connection, want: Want, now: datetime, *, paused: bool) -> None:
        queues = set(want.queues) - (paused_queues(notes(db, PAUSE), now) if paused else set())
        self._db = db
        self.lanes = [(queue, type_) for queue in sorted(queues) for type_ in want.types]
        self._values = {
            "queues": json.dumps(sorted(queues)),
            "types": json.dumps(list(want.types)),
            "now": to_micros(now),
        }

    def due(self, limit: int) -> Found | None:
        """The tasks that run next, in order."""
        levels = LEVELS
        while True:
            try:
                seqs, lanes, records, ids, keys, versions, is_all = self._first("due", count=limit, levels=levels)
            except sqlite3.DataError:
                # Together they are larger than a value of SQLite may be; fewer are not.
                if limit == 1:
                    raise
                limit //= 2
                continue
            if seqs is None:
                if is_all:
                    return None
                levels = ALL_LEVELS
                continue
            # No records at all, if each of them has lost what was kept apart.
            return Found(seqs.split(","), lanes.split(","), records or b"", ids, keys or "", versions)

    def next_due(self) -> datetime | None:
        """When the next task is due that this worker could take."""
        (first,) = self._first("next_due", levels=ALL_LEVELS)
        return None if first is None else from_micros(first)

    def _first(self, name: str, **more: int) -> Sequence[Any]:
        text = f"{statement('lane')}\n{statement(name)}"
        row: Sequence[Any] = self._db.execute(text, {**self._values, **more}).fetchone()
        return row


def _settle_overdue(db: sqlite3.Connection, now: datetime, swap: Swap) -> list[Task]:
    tasks, damages = overdue(db, now, OVERDUE_LIMIT)
    for seq, damage in damages:
        set_aside(db, seq, damage, now)
    changes = [Change(task, after) for task in tasks if (after := lifecycle.overdue(task, now))]
    swap(db, changes)
    return [change.after for change in changes]
