"""The figures of one moment, from bounded questions to the store: for gauges, and for alerts without Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from tenure import lifecycle
from tenure.queue import Queue
from tenure.stores.base import Query
from tenure.survey import survey
from tenure.task import TaskStatus

SOON = timedelta(seconds=60)
WINDOW = 900.0
"""Seconds that count as lately."""
LOOK = 1000
"""How many lapsed leases and records of a kind are looked at, at most, and ten times as many deadlines."""
SHORTEST = 0.001
"""Seconds over which a rate can be told."""
ENDS = (TaskStatus.Completed, TaskStatus.Failed, TaskStatus.Cancelled, TaskStatus.Expired)
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
    found = await survey(queue.store)
    waiting = {(due.queue, due.type) for due in found.due} - found.handled
    return Figures(
        depth=found.stats().queues,
        # The store's own index of deadlines, asked as if it were a little later.
        near_expiration=await queue.store.count_overdue(
            lifecycle.later(found.now, soon), LOOK * 10, TaskStatus.Pending, found.now
        ),
        unhandled={lane: number for lane, number in found.pending.items() if lane in waiting},
        oldest_pending=found.oldest_pending or 0.0,
        oldest_running=found.oldest_running or 0.0,
        lapsed=sum((await queue.store.count_overdue(found.now, LOOK, TaskStatus.Running)).values()),
        lease=max((worker.lease for worker in found.workers), default=DEFAULT_LEASE),
        workers=len(found.workers),
        paused=found.paused,
        damaged=found.damaged,
    )


async def flow(queue: Queue, window: float = WINDOW) -> Flow:
    """What came and went lately. At most a thousand records of each kind are looked at.

    All ends are counted over one time, for which that is enough; what came has its own, or a bulk would leave none for the ends.
    """
    now = await queue.now()
    came = await _latest(queue, now, None)
    went = {status: await _latest(queue, now, status) for status in ENDS}
    span = min(latest.span(window) for latest in went.values())
    rates = {status: latest.rate(span) for status, latest in went.items()}
    return Flow(
        submitted=came.rate(came.span(window)),
        ended=sum(rates.values()),
        completed=rates[TaskStatus.Completed],
        dead=rates[TaskStatus.Failed],
    )


class _Latest(NamedTuple):
    """How long ago the latest tasks were submitted, or ended in one way, and whether there are more of them."""

    ages: list[float]
    more: bool

    def span(self, window: float) -> float:
        """The seconds, up to the window, of which these are all."""
        return min(window, max(*self.ages, SHORTEST)) if self.more and self.ages else window

    def rate(self, span: float) -> float:
        """How many per second."""
        return sum(age <= span for age in self.ages) / span


async def _latest(queue: Queue, now: datetime, status: TaskStatus | None) -> _Latest:
    page = await queue.store.find(Query(status=status, limit=LOOK))
    moments = [task.created_at if status is None else task.ended_at for task in page.tasks]
    ages = [(now - moment).total_seconds() for moment in moments if moment is not None]
    # Records that cannot be read are left out, so a full page may hold fewer than were asked for.
    return _Latest(ages, more=page.cursor is not None)
