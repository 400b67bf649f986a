"""The S3 store: a queue in a bucket, and nothing else. See docs/decisions for the layout."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime

from tenure import lifecycle
from tenure.errors import IdempotencyConflict, StoreError
from tenure.idempotency import Reservation
from tenure.stores.aws import Access, AwsClient
from tenure.stores.base import (
    PAUSE,
    Change,
    Claimed,
    Concern,
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
)
from tenure.stores.door import Door
from tenure.stores.polling import Poll
from tenure.stores.s3.address import Address, read_address
from tenure.stores.s3.bucket import Bucket
from tenure.stores.s3.changing import Changing
from tenure.stores.s3.claiming import Claims
from tenure.stores.s3.examining import about, concerns
from tenure.stores.s3.finding import Finding
from tenure.stores.s3.ids import Ids
from tenure.stores.s3.inserting import Inserting
from tenure.stores.s3.layout import Layout, open_layout
from tenure.stores.s3.leaving import Leaving
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.moving import Moving
from tenure.stores.s3.names import milliseconds, promised
from tenure.stores.s3.notes import Notes, Pauses
from tenure.stores.s3.packing import Packing
from tenure.stores.s3.packs import Packs
from tenure.stores.s3.places import Places
from tenure.stores.s3.placing import Placing
from tenure.stores.s3.pruning import Pruning
from tenure.stores.s3.reservations import Reservations
from tenure.stores.s3.segments import Segment
from tenure.stores.s3.shelves import Front, Shelves, in_parallel
from tenure.stores.s3.writer import Writer
from tenure.submission import Submission
from tenure.task import Task, TaskStatus

TIMEOUT = 30.0
"""Seconds for one answer. Some servers let the losers of a race for a name wait for several."""
QUIET = 2.0
"""When polls are this many seconds apart, nothing has happened for ten times as long."""


class _Known:
    """What a store and its twins in other threads know of the bucket."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.mirror = Mirror()
        self.placing = Placing(self.mirror, self.shards)

    def shards(self) -> int:
        assert self.layout is not None, "open() comes first"
        return self.layout.shards


class S3Store(Store):
    """Durable tasks in a bucket."""

    size_limit = 1_000_000
    poll = 6.0
    sweep_interval = 60.0
    prune_interval = 300.0

    def __init__(
        self,
        url: str | Address,
        clock: Callable[[], datetime] | None = None,
        *,
        twin_of: S3Store | None = None,
    ) -> None:
        self.address = read_address(url) if isinstance(url, str) else url
        if twin_of is None:
            place = self.address
            access = Access("s3", region=place.region, endpoint=place.endpoint, profile=place.profile)
            self.client = AwsClient(access, timeout=TIMEOUT)
            self._known = _Known()
        else:
            # What is known of the bucket is shared, so that a renewal there is no surprise here.
            self.client = twin_of.client.twin()
            self._known = twin_of._known  # noqa: SLF001 - the same class
        self._door = Door(f"The queue on S3, {self.address.shown}", one_loop=True)
        self._given_clock = clock
        self._clock = clock or self.client.clock.now
        self._poll = Poll(longest=self.poll)
        self._opening = asyncio.Lock()
        self._tidying: set[asyncio.Task[None]] = set()
        self._noting: set[asyncio.Task[None]] = set()
        self._tidied: set[int] = set()
        self._assemble()

    def _assemble(self) -> None:
        self.bucket = bucket = Bucket(self.client, self.address)
        self.writer = writer = Writer(bucket, self._known.mirror)
        writer.damage.tell = self._note_damage
        writer.leave = Leaving(writer, self._shards, self._clock)
        self._shelves = Shelves(bucket, self._known.mirror, writer, self._shards, self._clock)
        self._packing = Packing(bucket, self._known.mirror, writer)
        self._packs = Packs(bucket, writer, self._packing, self._shards)
        self._ids = Ids(bucket)
        self._reservations = Reservations(bucket)
        self._places = Places(self._known.mirror, self._shelves, self._packs, self._ids, self._shards)
        self._changing = Changing(self._known.mirror, writer, self._places, self._ids, self._packing)
        self._changing.over = self._tidy
        self._inserting = Inserting(writer, self._places, self._ids, self._reservations, self._known.placing)
        self._finding = Finding(self._shelves, self._packs)
        self._notes = Notes(bucket, self._clock)
        self._pauses = Pauses(bucket, self._shards, self._clock)
        self._claims = Claims(self._shelves, writer, self._pauses, self._clock)
        self._claims.saw = lambda segments: self._tidy(self._packing.notice(segments))
        self._pruning = Pruning(
            self._shelves, self._packs, self._packing, writer, self._changing, self._ids, self._reservations
        )
        self._moving = Moving(
            self._shelves, self._finding, self._places, self._known.placing, self._ids, self._reservations, writer
        )

    def _shards(self) -> int:
        return self._known.shards()

    def check(self) -> None:
        self._door.check()

    async def open(self) -> None:
        self._door.check()
        async with self._opening:
            if self._known.layout is None:
                self._known.layout = await open_layout(self.bucket)

    async def now(self) -> datetime:
        await self.open()
        return self._clock()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        await self.open()
        answers = await self._inserting.insert(submissions, self._clock(), all_or_nothing=all_or_nothing)
        self._written()
        return answers

    async def claim(self, want: Want) -> Claimed:
        await self.open()
        claimed = await self._claims.claim(want)
        if not claimed.tasks and claimed.next_due is not None and claimed.next_due <= self._clock():
            # What was read has told that the server's time is later than was known here.
            claimed = await self._claims.claim(want)
        if claimed.tasks or claimed.overdue:
            self._poll.noticed()
        return claimed

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        await self.open()
        fitted = await self._changing.swap(changes)
        if any(change.after.status is TaskStatus.Pending for change in changes):
            self._claims.look_again()
        if any(change.after.ordering_key is not None for change in changes):
            self._claims.look_at_once()
        self._poll.written()
        return fitted

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        await self.open()
        return await self._changing.renew(renewals, self._clock())

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        await self.open()
        found = await self._places.find_readable(ids)
        return [found[task_id][1].task if task_id in found else None for task_id in ids]

    async def find(self, query: Query) -> Page:
        await self.open()
        return await self._finding.find(query)

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        late = []
        async for segment in self._needing_attention(now):
            late += [
                (task.lease_expires_at or task.expires_at or now, entry.order, task)
                for entry in segment.tasks()
                for task in [entry.task]
                if only in (None, task.status) and lifecycle.overdue(task, now) is not None
            ]
        return [task for *_, task in sorted(late, key=lambda each: each[:2])[:limit]]

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        async for segment in self._needing_attention(now):
            types = [
                entry.task.type
                for entry in segment.tasks()
                if entry.task.status is only and lifecycle.became_overdue(entry.task, since, now)
            ]
            counts.update(types[: limit - counts.total()])
        return counts

    async def _needing_attention(self, now: datetime) -> AsyncIterator[Segment]:
        """What may hold tasks that are overdue, a page at a time."""
        await self.open()
        for shard in self._shelves.shards:
            front: Front | None = self._claims.recent(shard, self.poll) if self._quiet() else None
            front = front or await self._shelves.front(shard)
            while front is not None:
                due = [each for each in front.listed if _needs_attention(each.name, now)]
                for segment in await self._shelves.read(due):
                    yield segment
                front = await self._shelves.next_page(shard, front) if front.last else None

    async def count(self) -> list[Count]:
        await self.open()
        return await self._finding.count()

    async def due(self, now: datetime) -> list[Due]:
        await self.open()
        return await self._finding.due(now)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        await self.open()
        return await self._pruning.prune(ended_before, now, limit)

    def _quiet(self) -> bool:
        """Whether nothing has happened for a while, so that looks which cost requests can wait."""
        return self._poll.pause() >= QUIET

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        await self.open()
        forgotten = await self._changing.forget(tasks, now)
        self._poll.written()
        return forgotten

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        await self.open()
        return await self._moving.dump(cursor, limit)

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        await self.open()
        there = await self._moving.restore(piece, now)
        self._written()
        return there

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        await self.open()
        found = await in_parallel(self._reservations.read, wanted)
        return [None if held is None else held.reservation for held in found]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        await self.open()
        notes = self._pauses if note.kind == PAUSE else self._notes
        done = await notes.put(note, if_version)
        self._written()
        return done

    async def notes(self, kind: str) -> list[Note]:
        await self.open()
        if self._noting:
            # Whoever has met damage finds it noted.
            await asyncio.wait(self._noting)
        return await (self._pauses.all() if kind == PAUSE else self._notes.of(kind))

    async def about(self) -> dict[str, str]:
        await self.open()
        return await about(self.bucket, self._shards())

    async def concerns(self) -> list[Concern]:
        await self.open()
        return await concerns(self.bucket)

    def mark(self) -> object:
        return self._poll.count

    async def wait(self, mark: object, timeout: float) -> None:
        await self._poll.wait(mark, timeout)

    def twin(self) -> Store:
        return S3Store(self.address, self._given_clock, twin_of=self)

    async def close(self) -> None:
        if not self._door.shut():
            return
        self._poll.close()
        if behind := self._tidying | self._noting:
            await asyncio.wait(behind)
        await self.writer.settled()
        await self.client.close()

    def _written(self) -> None:
        self._claims.look_again()
        self._poll.written()

    def _tidy(self, shards: list[int]) -> None:
        """In the background: nobody waits for it, and what one does not do another will."""

        async def tidy(shard: int) -> None:
            try:
                await self._packing.tidy(shard, only_if_many=True)
            except StoreError:
                return
            finally:
                self._tidied.discard(shard)

        for shard in shards:
            if shard in self._tidied:
                continue
            self._tidied.add(shard)
            task = asyncio.create_task(tidy(shard), name="tenure-s3-tidy")
            self._tidying.add(task)
            task.add_done_callback(self._tidying.discard)

    def _note_damage(self, name: str, why: str | None) -> None:
        async def note() -> None:
            try:
                await self._notes.put(Note("damaged", name, {} if why is None else {"why": why}), None)
            except StoreError:
                return

        task = asyncio.create_task(note(), name="tenure-s3-damage")
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)


def _needs_attention(name: str, now: datetime) -> bool:
    promise = promised(name)
    return "/k-" in name if promise is None else promise[1] <= milliseconds(now)
