"""Forgetting ended tasks and outdated records, a bounded piece at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tenure.errors import DamagedRecord
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.changing import Changing
from tenure.stores.s3.claiming import FEW
from tenure.stores.s3.damage import Damage
from tenure.stores.s3.ids import Held, Ids
from tenure.stores.s3.names import PAUSES, done_folder, shard_of
from tenure.stores.s3.packing import Packing
from tenure.stores.s3.packs import Packs
from tenure.stores.s3.reservations import FOLDER, HeldReservation, Reservations
from tenure.stores.s3.segments import Segment
from tenure.stores.s3.shelves import Shelves, in_parallel
from tenure.stores.s3.writer import Writer
from tenure.task import Task, TaskStatus
from tenure.times import FOREVER

READS = 200
"""The most records that one look reads to learn when they end."""
AGAIN = 300.0
"""Seconds after which records that others may have written are looked for."""


class Pruning:
    """Retention."""

    def __init__(
        self,
        shelves: Shelves,
        packs: Packs,
        packing: Packing,
        writer: Writer,
        changing: Changing,
        ids: Ids,
        reservations: Reservations,
    ) -> None:
        self._shelves, self._packs, self._packing = shelves, packs, packing
        self._writer, self._changing = writer, changing
        self._touched: list[str] = []
        bucket, damage = shelves.bucket, writer.damage
        self._stones = _Scan(bucket, damage, "ids/", ids.read_listed, _end_of_stone, ids.forget)
        self._records = _Scan(bucket, damage, FOLDER, reservations.read_listed, _end_of_record, reservations.delete)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        for shard in self._shelves.shards:
            if self._packing.old(shard, now):
                await self._packing.tidy(shard)
        ended = await self._longest_ended(ended_before, limit) if ended_before and limit > 0 else []
        done = await self._changing.forget(ended, now)
        await self._drop_empty(self._touched)
        self._touched = []
        forgotten = sum(done)
        forgotten += await self._records.forget_outdated(now, limit)
        return forgotten + await self._stones.forget_outdated(now, limit)

    def written(self) -> None:
        """This process has written a record: the next look reads on."""
        self._records.written()
        self._stones.written()

    async def _longest_ended(self, ended_before: Mapping[TaskStatus, datetime], limit: int) -> list[Task]:
        found: list[tuple[datetime, Task]] = []
        self._touched = []
        for shard in self._shelves.shards:
            front = await self._shelves.front(shard)
            listed = [each for each in front.listed if not each.name.endswith(PAUSES)]
            unknown = [each for each in listed if not self._shelves.mirror.has(each)]
            readable = [each for each in listed if each not in unknown[FEW:]]
            found += _ended(await self._shelves.read(readable), ended_before)
        packs = [
            (first, known) for known in await self._packs.all() if (first := _first(known.summary.ended, ended_before))
        ]
        for first, known in sorted(packs, key=lambda pair: pair[0]):
            found = sorted(found, key=lambda pair: pair[0])[:limit]
            if len(found) == limit and found[-1][0] < first:
                break
            pack = await self._packs.read(known.name)
            if pack is not None:
                here = {task.id for _, task in found}
                found += [pair for pair in _ended([pack], ended_before) if pair[1].id not in here]
                self._touched.append(known.name)
        return [task for _, task in sorted(found, key=lambda pair: pair[0])[:limit]]

    async def _drop_empty(self, names: list[str]) -> None:
        """A pack that holds nothing goes, unless it is the last: numbers are never used twice."""
        for name in names:
            pack = await self._packs.read(name)
            if pack is None or not pack.empty or pack.moved:
                continue
            listed = await self._shelves.bucket.page(done_folder(shard_of(name)), name, 1)
            if listed.objects:
                await self._writer.delete(pack)


class _Known(NamedTuple):
    etag: str
    end: datetime


class _Scan:
    """Walks through a folder of records, page by page, and remembers when each ends."""

    def __init__(
        self,
        bucket: Bucket,
        damage: Damage,
        folder: str,
        read: Callable[[Listed], Awaitable[Any]],
        end: Callable[[Any], datetime],
        delete: Callable[[Any], Awaitable[bool]],
    ) -> None:
        self._bucket, self._damage, self._folder = bucket, damage, folder
        self._read, self._end, self._delete = read, end, delete
        self._known: dict[str, _Known] = {}
        self._cursor = ""
        self._earliest = FOREVER
        self._again = 0.0

    def written(self) -> None:
        self._again = 0.0

    async def forget_outdated(self, now: datetime, limit: int) -> int:
        if now < self._earliest and time.monotonic() < self._again and not self._cursor:
            return 0
        page = await self._bucket.page(self._folder, self._cursor)
        names = {each.name for each in page.objects}
        unknown = [each for each in page.objects if self._known.get(each.name, ("",))[0] != each.etag][:READS]
        for listed, end in zip(unknown, await in_parallel(self._end_of, unknown), strict=True):
            self._known[listed.name] = _Known(listed.etag, end)
        outdated = [each for each in page.objects if each.name in self._known and self._known[each.name].end <= now]
        done: int = sum(await in_parallel(self._forget, outdated[:limit]))
        complete = not page.more and len(outdated) <= limit and len(unknown) < READS
        self._cursor = page.objects[-1].name if page.more else ""
        if not self._cursor and complete:
            self._known = {name: known for name, known in self._known.items() if name in names or page.more}
            self._earliest = min((known.end for known in self._known.values()), default=FOREVER)
            self._again = time.monotonic() + AGAIN
        return done

    async def _end_of(self, listed: Listed) -> datetime:
        """When a record may go: one that nobody can read stays."""
        try:
            held = await self._read(listed)
            return FOREVER if held is None else self._end(held)
        except DamagedRecord as damage:
            self._damage.mention(listed.name, str(damage))
            return FOREVER

    async def _forget(self, listed: Listed) -> bool:
        held = await self._read(listed)
        self._known.pop(listed.name, None)
        return held is not None and await self._delete(held)


def _end_of_stone(held: Held) -> datetime:
    stone = held.stone
    return FOREVER if stone is None else stone.remember_until or FOREVER


def _end_of_record(held: HeldReservation) -> datetime:
    return held.reservation.expires_at or FOREVER


def _ended(segments: list[Segment], before: Mapping[TaskStatus, datetime]) -> list[tuple[datetime, Task]]:
    return [
        (moment, entry.task)
        for segment in segments
        for entry in segment.tasks()
        if (limit := before.get(entry.task.status)) is not None
        and (moment := entry.task.ended_at) is not None
        and moment <= limit
    ]


def _first(
    ended: Mapping[TaskStatus, tuple[datetime, datetime]], before: Mapping[TaskStatus, datetime]
) -> datetime | None:
    return min(
        (ended[status][0] for status, limit in before.items() if status in ended and ended[status][0] <= limit),
        default=None,
    )
