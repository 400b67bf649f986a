"""What time does to tasks that nobody looks at: claims lapse, deadlines pass, ended tasks are forgotten.

It runs inside every worker, a bounded piece at a time, so that nothing depends on a process
of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TypeVar

from tenure import lifecycle, times
from tenure.errors import InvalidInput, StoreUnavailable, one_of
from tenure.observe.doubts import Doubts
from tenure.observe.events import Events
from tenure.observe.logging import tell_lapses
from tenure.stores.base import Change, Store
from tenure.task import ENDED, Task, TaskStatus
from tenure.words import STATUSES, plain

BATCH = 500

T = TypeVar("T")

Retention = Mapping[TaskStatus | str, float | timedelta | None]
"""How long ended tasks are kept, by status, in seconds or as a timedelta; None is for ever."""

DEFAULT_RETENTION: Retention = {
    TaskStatus.Completed: timedelta(days=7),
    TaskStatus.Cancelled: timedelta(days=7),
    TaskStatus.Expired: timedelta(days=7),
}
"""Failed and archived tasks are kept until told otherwise."""


class Sweeper:
    """Settles what is overdue and prunes what has been kept long enough."""

    def __init__(self, store: Store, retention: Retention = DEFAULT_RETENTION, events: Events | None = None) -> None:
        self._store = store
        self._events = events or Events()
        self._doubts = Doubts()
        keep = {_ended_status(word): time for word, time in retention.items()}
        self._keep = {
            status: times.seconds(time, f"retention of {status}") for status, time in keep.items() if time is not None
        }

    async def sweep(self) -> list[Task]:
        """One bounded piece of work in each part of the store; returns the tasks that changed."""
        swept = [task for found in await self._in_each_part(self._sweep) for task in found]
        await self._doubts.resolve(self._store, tell_lapses)
        return swept

    async def _in_each_part(self, work: Callable[[Store], Awaitable[T]]) -> list[T]:
        """Each by its own time. One that is away holds up no other."""
        done, errors = [], []
        for part in self._store.parts():
            try:
                done.append(await work(part))
            except StoreUnavailable as error:
                errors.append(error)
        if errors and not done:
            raise errors[0]
        return done

    async def _sweep(self, part: Store) -> list[Task]:
        now = await part.now()
        changes = [
            Change(task, after, if_unrenewed=True)
            for task in await part.overdue(now, BATCH)
            if (after := lifecycle.overdue(task, now)) is not None
        ]
        if not changes:
            return []
        try:
            fitted = await part.swap(changes)
        except StoreUnavailable:
            # A lapse is logged even where nobody listens.
            self._doubts.add(change.after for change in changes)
            self._events.in_doubt((change.after for change in changes), self._store)
            raise
        swept = [change.after for change, fits in zip(changes, fitted, strict=True) if fits]
        tell_lapses(swept)
        if self._events.subscribers:
            self._events.happened(swept)
        return swept

    async def prune(self) -> int:
        """Forget a bounded number of ended tasks and outdated records."""
        return sum(await self._in_each_part(self._prune))

    async def _prune(self, part: Store) -> int:
        now = await part.now()
        ended_before = {status: times.before(now, keep) for status, keep in self._keep.items()}
        return await part.prune(ended_before, now, BATCH)


def _ended_status(word: TaskStatus | str) -> TaskStatus:
    status = STATUSES.get(plain(word))
    if status is None:
        raise InvalidInput(one_of("status", word, [str(status) for status in ENDED]))
    if not status.ended:
        msg = f"Retention is for ended tasks; {status.value!r} is not one of {', '.join(ENDED)}."
        raise InvalidInput(msg)
    return status
