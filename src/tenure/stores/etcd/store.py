"""The etcd store: every transition is a transaction that a majority of the members has agreed on.

What the keys are, `layout` says. A claim is a key beside the record, and its fence is the revision of the log
at which that key was made; all other changes are computed by their rule and swapped in if the record is
still the one that was read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from tenure.errors import IdempotencyConflict, StoreError
from tenure.idempotency import Reservation, read_reservation
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
    Want,
    first_of_each,
)
from tenure.stores.etcd.address import Address, read_address
from tenure.stores.etcd.changing import forget, renew, swap
from tenure.stores.etcd.claiming import Search, first_due
from tenure.stores.etcd.client import Client
from tenure.stores.etcd.clock import LogClock
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.finding import find
from tenure.stores.etcd.health import about
from tenure.stores.etcd.inserting import Insert
from tenure.stores.etcd.lapsing import count_overdue, overdue
from tenure.stores.etcd.layout import ASKED, TIME, Lane, Layout, name
from tenure.stores.etcd.moving import dump, restore
from tenure.stores.etcd.news import News
from tenure.stores.etcd.noting import notes, put_note
from tenure.stores.etcd.pruning import prune
from tenure.stores.etcd.requests import get
from tenure.stores.etcd.timekeeping import Timekeeper
from tenure.submission import Submission
from tenure.task import Task, TaskStatus
from tenure.times import from_text


class EtcdStore(Store):
    """Durable tasks in a cluster of etcd, under one prefix."""

    size_limit = 500_000

    def __init__(
        self, url: str | Address, clock: Callable[[], datetime] | None = None, log_clock: LogClock | None = None
    ) -> None:
        self.address = address = read_address(url) if isinstance(url, str) else url
        self._clock, self._log_clock = clock, log_clock or LogClock()
        self._client = Client(address)
        layout = Layout("/".join(name(part).decode() for part in address.prefix.split("/")))
        self._database = Database(self._client, layout, self._time_if_known, self._hear_of)
        self._news = News(self._client, layout, self._heard)
        self._timekeeper = Timekeeper(self._client, layout, self._log_clock)
        self._lanes: set[Lane] = set()

    @property
    def _db(self) -> Database:
        self._client.door.check()
        return self._database

    def check(self) -> None:
        self._client.door.check()

    async def now(self) -> datetime:
        self.check()
        if self._clock is not None:
            return self._clock()
        now = await self._timekeeper.now()
        if self._log_clock.keeping:
            self._news.listen(self._client.revision)
        return now

    def _time_if_known(self) -> datetime | None:
        if self._clock is not None:
            return self._clock()
        return self._log_clock.now() if self._log_clock.started else None

    def _hear_of(self, at: datetime) -> None:
        if self._clock is None:
            self._log_clock.hear_of(at)

    def _heard(self, what: bytes, value: bytes) -> None:
        if what == ASKED:
            self._timekeeper.wanted.set()
        elif what == TIME and not self._log_clock.keeping:
            self._log_clock.hear(from_text(value.decode()))

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        answers = await Insert(self._db, await self.now()).run(submissions, whole=all_or_nothing)
        self._news.arrived()
        return answers

    async def claim(self, want: Want) -> Claimed:
        claimed = await Search(self._db, self._lanes, want, self.now).run()
        if claimed.overdue:
            self._news.arrived()
        return claimed

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        done = await swap(self._db, changes)
        self._news.arrived()
        return done

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        return await renew(self._db, renewals, await self.now())

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return [None if stored is None else stored.task for stored in await self._db.tasks(ids)]

    async def find(self, query: Query) -> Page:
        return await find(self._db, query, await self.now())

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        return [stored.task for stored in await overdue(self._db, now, limit, only)]

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await count_overdue(self._db, now, limit, only, since)

    async def count(self) -> list[Count]:
        return await self._db.writer.count()

    async def due(self, now: datetime) -> list[Due]:
        found, keys_wait = await first_due(self._db, now)
        # Nobody has claimed since these keys changed, so the first of each stands in no line yet.
        return first_of_each([*found, *await super().due(now)]) if keys_wait else found

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        return await prune(self._db, ended_before, now, limit)

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        done = await forget(self._db, tasks, now)
        self._news.arrived()
        return done

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await dump(self._db, cursor, limit, await self.now())

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        there = await restore(self._db, piece, now)
        self._news.arrived()
        return there

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        found = await self._db.read([get(self._db.layout.reservation(record.identity)) for record in wanted])
        return [read_reservation(kvs[0].value, kvs[0].key.decode()) if kvs else None for kvs in found]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        done = await put_note(self._db, note, if_version, await self.now())
        self._news.arrived()
        return done

    async def notes(self, kind: str) -> list[Note]:
        return await notes(self._db, kind)

    def mark(self) -> object:
        return self._news.mark()

    async def wait(self, mark: object, timeout: float) -> None:
        await self._news.wait(mark, timeout)

    async def about(self) -> dict[str, str]:
        return await about(self._db)

    def twin(self) -> Store:
        return EtcdStore(self.address, self._clock, self._log_clock)

    async def close(self) -> None:
        if self._client.door.is_elsewhere:
            return
        await self._news.close()
        await self._timekeeper.close()
        with contextlib.suppress(StoreError):
            await self._database.hush()
            await self._database.writer.close()
        await self._client.close()
