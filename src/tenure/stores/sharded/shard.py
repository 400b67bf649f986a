"""One store among several: its name, its health, and the note that says which one it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from tenure.errors import IdempotencyConflict, StoreFull, StoreUnavailable
from tenure.idempotency import Reservation
from tenure.stores.base import (
    Change,
    Claimed,
    Count,
    Due,
    Hold,
    Note,
    Page,
    Piece,
    Query,
    Renewal,
    Store,
    Transaction,
    Want,
)
from tenure.stores.options import without_password
from tenure.stores.sharded.health import Health
from tenure.stores.sharded.placing import name_of
from tenure.stores.sharded.seats import Seat, check_seat, seat_of
from tenure.submission import Submission
from tenure.task import Task, TaskStatus

T = TypeVar("T")


class Shard(Store):
    """Passes every call on, and keeps account of whether it was answered."""

    def __init__(self, number: int, store: Store, url: str, health: Health | None = None) -> None:
        self.number = number
        self.store = store
        self.url = url
        self.size_limit, self.poll = store.size_limit, store.poll
        self.sweep_interval, self.prune_interval = store.sweep_interval, store.prune_interval
        self.name = f"{name_of(number)} ({without_password(url)})"
        self.health = health or Health(self.name)
        self.expected: Seat | None = None
        """What its note must say; None while that has not been settled."""
        self._ready = False
        self._entering = asyncio.Lock()

    async def enter(self) -> Seat | None:
        """Open the store, and read which shard it is; None if nobody has said so yet."""
        began = time.monotonic()
        try:
            await self.store.open()
            return await seat_of(self.store)
        except StoreUnavailable as error:
            self.health.failed(error, began)
            raise

    def take_seat(self, seat: Seat) -> None:
        """It is known to be this shard; without this, the first call makes sure."""
        self.expected = seat
        self._ready = True

    async def _prepare(self) -> None:
        async with self._entering:
            if not self._ready:
                await self.store.open()
                if self.expected is not None:
                    check_seat(self.name, await seat_of(self.store), self.expected)
                self._ready = True

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and remember whether it was answered."""
        began = time.monotonic()
        try:
            if not self._ready:
                await self._prepare()
            answer = await call()
        except StoreFull:
            raise
        except StoreUnavailable as error:
            self.health.failed(error, began)
            raise
        if self.health.away is not None:
            self.health.worked(began)
        return answer

    async def now(self) -> datetime:
        """Its own time. Knowing the time is no sign of life: most stores do so without asking."""
        if not self._ready:
            return await self.ask(self.store.now)
        return await self.store.now()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self.ask(lambda: self.store.insert(submissions, all_or_nothing=all_or_nothing))

    async def claim(self, want: Want) -> Claimed:
        return await self.ask(lambda: self.store.claim(want))

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        return await self.ask(lambda: self.store.swap(changes))

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        return await self.ask(lambda: self.store.renew(renewals))

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return await self.ask(lambda: self.store.get(ids))

    async def find(self, query: Query) -> Page:
        return await self.ask(lambda: self.store.find(query))

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        return await self.ask(lambda: self.store.overdue(now, limit, only))

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await self.ask(lambda: self.store.count_overdue(now, limit, only, since))

    async def running_since(self) -> datetime | None:
        return await self.ask(self.store.running_since)

    async def count(self) -> list[Count]:
        return await self.ask(self.store.count)

    async def due(self, now: datetime) -> list[Due]:
        return await self.ask(lambda: self.store.due(now))

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        return await self.ask(lambda: self.store.prune(ended_before, now, limit))

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        return await self.ask(lambda: self.store.forget(tasks, now))

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await self.ask(lambda: self.store.dump(cursor, limit))

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        return await self.ask(lambda: self.store.restore(piece, now))

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        return await self.ask(lambda: self.store.reserved(wanted))

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        return await self.ask(lambda: self.store.put_note(note, if_version=if_version))

    async def notes(self, kind: str) -> list[Note]:
        return await self.ask(lambda: self.store.notes(kind))

    async def begin(self) -> Transaction:
        return await self.ask(self.store.begin)

    async def about(self) -> dict[str, str]:
        return await self.ask(self.store.about)

    def mark(self) -> object:
        return self.store.mark() if self._ready else None

    async def wait(self, mark: object, timeout: float) -> None:
        await self.store.wait(mark, timeout)

    def check(self) -> None:
        self.store.check()

    def twin(self) -> Shard:
        store = self.store.twin()
        if store is self.store:
            return self
        twin = Shard(self.number, store, self.url, self.health)
        twin.expected = self.expected
        twin._ready = self._ready
        return twin

    async def close(self) -> None:
        await self.store.close()

    async def insert_within(
        self, connection: Any, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self.ask(lambda: self.store.insert_within(connection, submissions, all_or_nothing=all_or_nothing))
