"""Forgetting ended tasks and outdated records, a bounded piece at a time."""

from __future__ import annotations

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

READS = 1000
"""The most records that one look reads to learn when they end."""
PAGES = 10
"""The most pages of names that one look walks through."""
REMEMBERED = 100_000
"""The most records whose ends are remembered; those of any more are read again in every round."""


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
    """Walks round and round through a folder of records, and remembers until the next round when each ends."""

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
        self._this_round: dict[str, _Known] = {}
        self._cursor = ""

    async def forget_outdated(self, now: datetime, limit: int) -> int:
        """Look through the next records, a bounded number of them, and forget up to `limit` that have ended."""
        forgotten, reads = 0, READS
        for _ in range(PAGES):
            page = await self._bucket.page(self._folder, self._cursor)
            known = {each.name: found for each in page.objects if (found := self._remembered(each)) is not None}
            unknown = [each for each in page.objects if each.name not in known]
            read = unknown[:reads]
            for each, end in zip(read, await in_parallel(self._end_of, read), strict=True):
                known[each.name] = _Known(each.etag, end)
            outdated = [each for each in page.objects if each.name in known and known[each.name].end <= now]
            chosen = outdated[: limit - forgotten]
            forgotten += sum(await in_parallel(self._forget, chosen))
            if len(self._this_round) + len(known) <= REMEMBERED:
                self._this_round |= known
            if len(read) < len(unknown) or len(chosen) < len(outdated):
                # The next look begins with this page.
                break
            reads -= len(read)
            if not page.more:
                self._cursor, self._known, self._this_round = "", self._this_round, {}
                break
            self._cursor = page.objects[-1].name
        return forgotten

    def _remembered(self, listed: Listed) -> _Known | None:
        known = self._this_round.get(listed.name) or self._known.get(listed.name)
        return known if known is not None and known.etag == listed.etag else None

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
