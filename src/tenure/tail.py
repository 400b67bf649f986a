"""What happens in a store, as it happens.

A record carries its own history, so it is enough to find the tasks that changed: those that
run, that were submitted or ended of late, that wait for another attempt, and those that ran
at the last look and do not any more. Events of one task come in order. A change that leaves
no such trace (an old dead letter that was put back) is told with the task's next one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import msgspec

from tenure.queue import Queue
from tenure.stores.base import Query
from tenure.task import ENDED, Event, Task, TaskStatus

PAGE = 500
OVERLAP = timedelta(seconds=2)
"""How far each look reaches behind the last one: a commit may come later than the time it carries."""
REMEMBERED = 50_000
BREATH = 0.1
"""A busy store writes all the time; looking at each commit would only slow it down."""


async def follow(
    queue: Queue, *, since: datetime | None = None, poll: float = 1.0
) -> AsyncIterator[tuple[Task, Event]]:
    """Every event from `since` on (default: now), with its task; it goes on until the caller leaves."""
    start = since or await queue.now()
    horizon, told, running = start, _Told(), set[str]()
    while True:
        mark = queue.store.mark()
        now = await queue.now()
        tasks = await _changed(queue, horizon, running)
        news = [
            (event.at, event.number, task.id, task, event)
            for task in tasks.values()
            for event in told.news(task)
            if event.at >= start
        ]
        for *_, task, event in sorted(news, key=lambda item: item[:3]):
            yield task, event
        running = {task.id for task in tasks.values() if task.status is TaskStatus.Running}
        horizon = max(start, now - OVERLAP)
        await queue.store.wait(mark, poll)
        await asyncio.sleep(BREATH)


class _Told:
    """Up to which event each task has been told; the oldest tasks are forgotten."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()

    def news(self, task: Task) -> list[Event]:
        last = self._numbers.pop(task.id, 0)
        self._numbers[task.id] = task.version
        if len(self._numbers) > REMEMBERED:
            self._numbers.popitem(last=False)
        return [event for event in task.history if event.number > last]


async def _changed(queue: Queue, horizon: datetime, were_running: set[str]) -> dict[str, Task]:
    found: dict[str, Task] = {}
    await _collect(queue, Query(status=TaskStatus.Running, limit=PAGE), found, None)
    await _collect(queue, Query(status=TaskStatus.Pending, min_attempts=1, limit=PAGE), found, horizon)
    await _collect(queue, Query(limit=PAGE), found, horizon)
    for status in ENDED:
        await _collect(queue, Query(status=status, limit=PAGE), found, horizon)
    if gone := were_running - found.keys():
        found |= {task.id: task for task in await queue.store.get(sorted(gone)) if task is not None}
    return found


async def _collect(queue: Queue, query: Query, found: dict[str, Task], horizon: datetime | None) -> None:
    """Read pages, latest first, until one holds nothing that changed since the horizon."""
    while True:
        page = await queue.store.find(query)
        fresh = [task for task in page.tasks if horizon is None or task.updated_at >= horizon]
        found |= {task.id: task for task in fresh}
        if page.cursor is None or (horizon is not None and not fresh):
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)
