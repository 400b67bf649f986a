"""A look at a store as a whole: what there is, since when, and who works on it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tenure.stores.base import PAUSE, WORKER, Count, Due, Store, paused_queues
from tenure.task import TaskStatus

SILENCE = timedelta(seconds=60)
"""A worker that has given no sign of life for this long counts as gone."""

Lane = tuple[str, str]
"""A queue and a type."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker's last sign of life."""

    id: str
    host: str
    pid: int
    queues: list[str]
    types: list[str]
    concurrency: int
    running: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    lease: float = 30.0


class QueueStats(msgspec.Struct, frozen=True):
    """Depths and ages of one moment."""

    now: datetime
    counts: dict[str, int]
    queues: dict[str, dict[str, int]]
    types: dict[str, dict[str, int]]
    oldest_pending_seconds: float | None
    oldest_running_seconds: float | None
    workers: int
    paused: dict[str, str]
    unhandled_types: list[str]
    damaged: int


class Survey(msgspec.Struct, frozen=True):
    """What one look at a store has found. It costs the same however many tasks there are."""

    now: datetime
    counts: Sequence[Count]
    due: Sequence[Due]
    running_since: datetime | None
    workers: Sequence[WorkerInfo]
    paused: Mapping[str, str]
    damaged: int

    @property
    def oldest_pending(self) -> float | None:
        """Seconds for which the task has waited that was due first."""
        return self._age(min((due.since for due in self.due), default=None))

    @property
    def oldest_running(self) -> float | None:
        """Seconds for which the attempt has run that runs longest."""
        return self._age(self.running_since)

    @property
    def pending(self) -> dict[Lane, int]:
        """How many tasks are pending, by queue and type."""
        return {(count.queue, count.type): count.count for count in self.counts if count.status is TaskStatus.Pending}

    @property
    def handled(self) -> set[Lane]:
        """What the workers take that are alive."""
        return {(queue, type_) for worker in self.workers for queue in worker.queues for type_ in worker.types}

    def stats(self) -> QueueStats:
        """The figures of this moment."""
        queues: dict[str, dict[str, int]] = {}
        types: dict[str, dict[str, int]] = {}
        sums = dict.fromkeys((status.value for status in TaskStatus), 0)
        for count in self.counts:
            for row in (queues.setdefault(count.queue, {}), types.setdefault(count.type, {}), sums):
                row[count.status.value] = row.get(count.status.value, 0) + count.count
        return QueueStats(
            now=self.now,
            counts=sums,
            queues=queues,
            types=types,
            oldest_pending_seconds=self.oldest_pending,
            oldest_running_seconds=self.oldest_running,
            workers=len(self.workers),
            paused=dict(self.paused),
            unhandled_types=sorted({type_ for _, type_ in self.pending.keys() - self.handled}),
            damaged=self.damaged,
        )

    def _age(self, since: datetime | None) -> float | None:
        return None if since is None else (self.now - since).total_seconds()


async def survey(store: Store) -> Survey:
    """Ask each question once."""
    now = await store.now()
    return Survey(
        now=now,
        counts=await store.count(),
        due=await store.due(now),
        running_since=await store.running_since(),
        workers=[worker for worker in await workers(store, now) if worker.alive],
        paused=await paused(store, now),
        damaged=len(await store.notes("damaged")),
    )


async def workers(store: Store, now: datetime) -> list[WorkerInfo]:
    """Every worker that has left a sign of life, also those that fell silent."""
    found = []
    for note in await store.notes(WORKER):
        seen_at = note.updated_at or now
        about = {**note.value, "seen_at": seen_at, "alive": now - seen_at < SILENCE}
        # A note that nobody can read is no sign of life.
        with contextlib.suppress(msgspec.ValidationError):
            found.append(msgspec.convert(about, WorkerInfo))
    return found


async def paused(store: Store, now: datetime) -> dict[str, str]:
    """The paused queues and why."""
    notes = await store.notes(PAUSE)
    names = paused_queues(notes, now)
    return {note.key: note.value.get("reason", "") for note in notes if note.key in names}
