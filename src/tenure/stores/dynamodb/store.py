"""The DynamoDB store: an item per task, and indexes that say where to look.

A decision rests on a condition of the write or on a consistent read of the item itself. Indexes
of DynamoDB lag behind by some milliseconds, as a rule: that can delay a task, and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from tenure.errors import IdempotencyConflict, StoreUnusable
from tenure.idempotency import Reservation, read_reservation
from tenure.stores.aws import Access, AwsClient
from tenure.stores.base import Change, Claimed, Count, Due, Hold, Note, Page, Piece, Query, Renewal, Store, Want
from tenure.stores.door import Door
from tenure.stores.dynamodb.address import Address, read_address
from tenure.stores.dynamodb.changing import read, renew, swap
from tenure.stores.dynamodb.claiming import Claim
from tenure.stores.dynamodb.counting import Counts
from tenure.stores.dynamodb.finding import find
from tenure.stores.dynamodb.forgetting import forget, prune
from tenure.stores.dynamodb.inserting import Insert
from tenure.stores.dynamodb.items import KnownRanks
from tenure.stores.dynamodb.keys import Keys
from tenure.stores.dynamodb.lanes import Lanes
from tenure.stores.dynamodb.making import prepare, time_to_live
from tenure.stores.dynamodb.moving import dump, restore
from tenure.stores.dynamodb.noting import notes, put_note
from tenure.stores.dynamodb.overdue import count_overdue, overdue
from tenure.stores.dynamodb.table import Table
from tenure.stores.dynamodb.together import Parts
from tenure.stores.polling import Poll
from tenure.submission import Submission
from tenure.task import Task, TaskStatus


class DynamoStore(Store):
    """Durable tasks in a table of DynamoDB."""

    size_limit = 256_000

    def __init__(
        self, url: str | Address, clock: Callable[[], datetime] | None = None, client: AwsClient | None = None
    ) -> None:
        self.address = address = read_address(url) if isinstance(url, str) else url
        self._clock = clock
        self._door = Door(f"The queue on DynamoDB, {address.shown}", one_loop=True)
        access = Access("dynamodb", region=address.region, endpoint=address.endpoint, profile=address.profile)
        self.client = client or AwsClient(access, connections=address.connections, timeout=address.timeout)
        self.table = Table(self.client, address)
        self._poll = Poll(longest=address.poll)
        self._ranks = KnownRanks()
        self._known: Parts | None = None
        self._turn = random.randrange(1 << 16)  # noqa: S311 - where a worker begins to look

    async def open(self) -> None:
        await self._parts()

    def check(self) -> None:
        self._door.check()

    async def _parts(self) -> Parts:
        """What every step needs; the table is looked at before the first one."""
        self._door.check()
        if self._known is None:
            keys = Keys(self.address.prefix, await prepare(self.table))
            lanes, counts = Lanes(self.table, keys), Counts(self.table, keys)
            self._known = Parts(self.table, keys, lanes, counts, self._ranks)
        return self._known

    async def now(self) -> datetime:
        self._door.check()
        if self._clock is not None:
            return self._clock()
        if not self.client.clock.known:
            await self._parts()
            if not self.client.clock.known:
                msg = f"DynamoDB, {self.address.shown}: the server does not say what time it is; its answers have no Date."
                raise StoreUnusable(msg)
        return self.client.clock.now()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        if not submissions:
            return []
        insert = Insert(await self._parts(), await self.now(), submissions)
        try:
            return await insert.run(all_or_nothing=all_or_nothing)
        finally:
            self._poll.written()

    async def claim(self, want: Want) -> Claimed:
        self._turn += 1
        answer = await Claim(await self._parts(), want, await self.now(), self.now, self._turn).run()
        if answer.overdue:
            self._poll.written()
        elif answer.tasks:
            self._poll.noticed()
        return answer

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        try:
            return await swap(await self._parts(), changes, await self.now())
        finally:
            self._poll.written()

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        return await renew(await self._parts(), renewals, await self.now())

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        found = await read(await self._parts(), ids) if ids else {}
        return [found.get(task_id) for task_id in ids]

    async def find(self, query: Query) -> Page:
        return await find(await self._parts(), query)

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        return await overdue(await self._parts(), now, limit, only)

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await count_overdue(await self._parts(), now, limit, only, since)

    async def count(self) -> list[Count]:
        return await (await self._parts()).counts.read()

    async def due(self, now: datetime) -> list[Due]:
        return await (await self._parts()).lanes.due(now)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        return await prune(await self._parts(), ended_before, now, limit)

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        done = await forget(await self._parts(), tasks, now)
        self._poll.written()
        return done

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await dump(await self._parts(), cursor, limit)

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        there = await restore(await self._parts(), piece, now)
        self._poll.written()
        return there

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        parts = await self._parts()
        places = [parts.keys.reservation(record) for record in wanted]
        found = await parts.table.get(places)
        return [
            read_reservation(found[place]["record"], record.identity) if place in found else None
            for place, record in zip(places, wanted, strict=True)
        ]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        parts = await self._parts()
        done = await put_note(parts.table, parts.keys, note, if_version, await self.now())
        self._poll.written()
        return done

    async def notes(self, kind: str) -> list[Note]:
        parts = await self._parts()
        return await notes(parts.table, parts.keys, kind)

    def mark(self) -> object:
        return self._poll.count

    async def wait(self, mark: object, timeout: float) -> None:
        await self._poll.wait(mark, timeout)

    async def about(self) -> dict[str, str]:
        parts, place = await self._parts(), await self.client.access.place()
        return {
            "store": f"DynamoDB at {place.endpoint}, region {place.region}",
            "table": self.address.shown,
            "shards": str(parts.keys.shards),
            "ttl": await time_to_live(self.table),
            "clock": f"the server's, known within {self.client.clock.uncertainty:.2f} s",
        }

    def twin(self) -> Store:
        twin = DynamoStore(self.address, self._clock, self.client.twin())
        twin._ranks = self._ranks
        return twin

    async def close(self) -> None:
        if not self._door.shut():
            return
        self._poll.close()
        await self.client.close()
