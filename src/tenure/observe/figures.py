"""The figures of one moment, from bounded questions to the store: for gauges, and for alerts without Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from tenure import lifecycle
from tenure.queue import Queue
from tenure.stores.base import Query
from tenure.task import Task, TaskStatus

SOON = timedelta(seconds=60)
WINDOW = 900.0
"""Seconds that count as lately."""
LOOK = 100
"""The unit of how many deadlines are looked at."""
DEFAULT_LEASE = 30.0


class Figures(msgspec.Struct, frozen=True):
    """What there is, how old it is, and who works on it."""

    depth: Mapping[str, Mapping[str, int]]
    near_expiration: Mapping[str, int]
    unhandled: Mapping[tuple[str, str], int]
    """By queue and type: what is pending where something is due that no live worker takes."""
    oldest_pending: float
    oldest_running: float
    lapsed: int
    lease: float
    workers: int
    paused: Mapping[str, str]
    damaged: int

    def count(self, status: TaskStatus) -> int:
        """How many tasks of all queues have this status."""
        return sum(lane.get(status.value, 0) for lane in self.depth.values())


class Flow(msgspec.Struct, frozen=True):
    """How many tasks per second came in and ended lately, by what the latest records tell."""

    submitted: float
    ended: float
    completed: float
    dead: float

    @property
    def dead_share(self) -> float:
        """The part of what ran to an end that failed."""
        ran = self.completed + self.dead
        return self.dead / ran if ran else 0.0


async def look(queue: Queue, soon: timedelta = SOON) -> Figures:
    """The figures of this moment. It costs the same however many tasks there are."""
    stats = await queue.stats()
    due = {(lane.queue, lane.type) for lane in await queue.store.due(stats.now)}
    pending = [lane for lane in await queue.store.count() if lane.status is TaskStatus.Pending]
    workers = await queue.workers()
    handled = {(name, type_) for worker in workers for name in worker.queues for type_ in worker.types}
    unhandled = due - handled
    return Figures(
        depth=stats.queues,
        near_expiration=await _near(queue, stats.now, soon, stats.counts[TaskStatus.Running]),
        unhandled={(lane.queue, lane.type): lane.count for lane in pending if (lane.queue, lane.type) in unhandled},
        oldest_pending=stats.oldest_pending_seconds or 0.0,
        oldest_running=stats.oldest_running_seconds or 0.0,
        lapsed=await _lapsed(queue, stats.now),
        lease=max((worker.lease for worker in workers), default=DEFAULT_LEASE),
        workers=len(workers),
        paused=stats.paused,
        damaged=stats.damaged,
    )


async def flow(queue: Queue, window: float = WINDOW) -> Flow:
    """What came and went lately; at most a thousand records of each kind are looked at."""
    now = await queue.now()
    ended = await queue.throughput(window)
    latest = (await queue.store.find(Query(limit=1000))).tasks
    ages = [age for task in latest if (age := (now - task.created_at).total_seconds()) < window]
    span = ages[-1] if len(ages) == len(latest) == 1000 else window
    return Flow(
        submitted=len(ages) / max(span, 0.001),
        ended=sum(ended.values()),
        completed=ended[TaskStatus.Completed],
        dead=ended[TaskStatus.Failed],
    )


async def _lapsed(queue: Queue, now: datetime) -> int:
    return sum(task.status is TaskStatus.Running for task in await queue.store.overdue(now, LOOK * 10))


async def _near(queue: Queue, now: datetime, soon: timedelta, running: int) -> Mapping[str, int]:
    """The store's own index of deadlines, asked as if it were a little later.

    It answers with leases that end by then too, so there must be room for those.
    """
    later = lifecycle.later(now, soon)
    found = await queue.store.overdue(later, min(running + LOOK * 20, LOOK * 100))
    return Counter(task.type for task in found if _is_near(task, now))


def _is_near(task: Task, now: datetime) -> bool:
    return task.status is TaskStatus.Pending and not task.is_expired_at(now)
