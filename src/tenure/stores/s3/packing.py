"""Ended tasks leave the front: they are packed together, a thousand to an object.

The packs of a shard are numbered, and only the last one takes more. A tidying appends tasks to it,
marked with where they come from, deletes them there if they are still as they were, and takes the
marks off. Whoever finds marks in a pack finishes that first, so there is one tidying at a time in a
shard, and a task is in two places only while one of them says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from tenure.errors import DamagedRecord
from tenure.stores.s3.bucket import Bucket
from tenure.stores.s3.leaving import arrive
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.names import done_folder, is_lane, pack_name, shard_of
from tenure.stores.s3.segments import Entry, Segment, replace
from tenure.stores.s3.writer import Gone, Writer

PACK = 1000
PACK_BYTES = 4_000_000
AT_ONCE = 4
"""Deletes at a time: nobody waits for them, and they should hold up nobody who does."""
MANY_SEGMENTS, MANY_TASKS = 250, 1000
"""So many ended segments, or tasks in them, are worth a tidying."""
OLD = timedelta(hours=1)
"""What ended this long ago is tidied away however few they are."""


class Packing:
    """Knows what is over in the front, and tidies it away when there is enough of it."""

    def __init__(self, bucket: Bucket, mirror: Mirror, writer: Writer) -> None:
        self._bucket, self._mirror, self._writer = bucket, mirror, writer
        self._over: dict[int, dict[str, int]] = {}
        self._last: dict[int, str] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    def notice(self, segments: Iterable[Segment | None]) -> list[int]:
        """Look at segments that were written or read; the shards in which there is enough to tidy."""
        touched = set()
        for segment in segments:
            if segment is None:
                continue
            over = self._over.setdefault(shard_of(segment.name), {})
            if segment.name in over and segment.over:
                continue
            ended = len(segment.entries) if segment.over else 0
            if is_lane(segment.name) and not segment.over and len(segment.entries) >= MANY_SEGMENTS:
                # Every write of a key rewrites them all: so many are reason enough.
                many = sum(entry.task.status.ended for entry in segment.tasks()) >= MANY_SEGMENTS
                ended = MANY_TASKS if many else 0
            if ended or segment.over:
                over[segment.name] = ended
                touched.add(shard_of(segment.name))
            else:
                over.pop(segment.name, None)
        return [shard for shard in touched if self._enough(shard)]

    def _enough(self, shard: int) -> bool:
        over = self._over.get(shard, {})
        return len(over) >= MANY_SEGMENTS or sum(over.values()) >= MANY_TASKS

    def old(self, shard: int, now: datetime) -> bool:
        """Whether something that is over has been in the front for long."""
        for name in self._over.get(shard, {}):
            segment = self._mirror.get(name)
            if segment is not None and all(now - entry.task.updated_at >= OLD for entry in segment.tasks()):
                return True
        return False

    async def tidy(self, shard: int, *, only_if_many: bool = False) -> None:
        """Pack what is over, until there is nothing left of it, or not enough to be worth it."""
        async with self._locks.setdefault(shard, asyncio.Lock()):
            while self._enough(shard) if only_if_many else self._over.get(shard):
                await self._tidy_some(shard)

    async def _tidy_some(self, shard: int) -> None:
        pack = await self.open_pack(shard)
        sources: list[Segment] = []
        chosen: dict[str, tuple[Entry, str]] = {}
        size = sum(_size(entry) for entry in pack.entries.values())
        for name in list(self._over[shard]):
            segment = self._mirror.get(name)
            ended = [] if segment is None else [each for each in segment.tasks() if each.task.status.ended]
            if segment is None or not (segment.over or is_lane(name)):
                del self._over[shard][name]
                continue
            growth = sum(map(_size, ended))
            room = len(pack.entries) + len(chosen) + len(ended) <= PACK and size + growth <= PACK_BYTES
            if not room and (pack.entries or chosen):
                break
            size += growth
            chosen |= {entry.task.id: (entry, name) for entry in ended}
            sources.append(segment)
            del self._over[shard][name]
        full = bool(self._over[shard])
        if not sources:
            if full:
                await self._close(pack)
            return
        if await self._append(pack, chosen):
            await self._clear(pack.name, sources, close=full)

    async def _append(self, pack: Segment, chosen: dict[str, tuple[Entry, str]]) -> bool:
        entries = {task_id: entry for task_id, (entry, _) in chosen.items()}
        marks = {task_id: source for task_id, (_, source) in chosen.items()}
        if not pack.etag:
            return await self._writer.create(replace(pack, entries=entries, arriving=marks)) is not None

        def append(held: Segment, _: bool) -> tuple[Segment, bool]:
            if held.arriving or held.closed:
                return held, False
            moved = {task_id: name for task_id, name in held.moved.items() if task_id not in entries}
            return replace(held, entries={**held.entries, **entries}, moved=moved, arriving=marks), True

        try:
            return await self._writer.change(pack.name, append)
        except (Gone, DamagedRecord):
            return False

    async def open_pack(self, shard: int) -> Segment:
        """The pack that takes more, with nothing under way; one without a tag is not there yet."""
        while True:
            folder = done_folder(shard)
            last = self._last.get(shard, folder)
            for each in await self._bucket.names(folder, last):
                last = each.name
            self._last[shard] = last
            try:
                pack = None if last == folder else await self._writer.read(last)
            except DamagedRecord:
                return Segment(pack_name(shard, _number(last) + 1), "", {})
            if pack is None:
                if last != folder:
                    del self._last[shard]
                    continue
                return Segment(pack_name(shard, 1), "", {})
            if pack.arriving:
                await self.finish(pack)
                continue
            if pack.closed:
                return Segment(pack_name(shard, _number(last) + 1), "", {})
            return pack

    async def finish(self, pack: Segment) -> None:
        """Finish a tidying that somebody else began."""
        sources = [await self._legible(name) for name in sorted(set(pack.arriving.values()))]
        await self._clear(pack.name, [source for source in sources if source is not None], close=False)

    async def _legible(self, name: str) -> Segment | None:
        """An object, if there is one and somebody can read it."""
        try:
            return await self._writer.read(name)
        except DamagedRecord:
            return None

    async def _clear(self, pack_name: str, sources: list[Segment], *, close: bool) -> None:
        """Delete the tasks where they were; those that are not as they were stay there, and leave the pack."""
        pack = self._mirror.get(pack_name) or await self._legible(pack_name)
        if pack is None:
            return
        kept = {task_id: entry.task.version for task_id, entry in pack.entries.items()}
        free = asyncio.Semaphore(AT_ONCE)

        async def clear(source: Segment) -> set[str]:
            async with free:
                return await self._remove(source, kept)

        left = set().union(*await asyncio.gather(*(clear(source) for source in sources)))

        def settle(held: Segment, _: bool) -> tuple[Segment, None]:
            if not held.arriving:
                return held, None
            stay = {task_id for task_id in held.arriving if task_id in left}
            return replace(held.without(stay), arriving={}, closed=held.closed or close), None

        try:
            await self._writer.change(pack_name, settle)
        except (Gone, DamagedRecord):
            return

    async def _remove(self, source: Segment, kept: dict[str, int]) -> set[str]:
        """Remove packed tasks from a segment; the ids of those that are still there."""
        for task_id, target in source.moved.items():
            # Its marks must be off before the word that they rest on goes.
            await arrive(self._writer, target, [task_id], here=True)
        current: Segment | None = source
        if is_lane(source.name):
            try:
                current = await self._writer.change(source.name, lambda lane, _: _without_packed(lane, kept))
            except (Gone, DamagedRecord):
                return set()
            if not current.empty or current.arriving:
                return set(current.entries) & set(kept)
        while current is not None:
            packed = all(kept.get(task_id) == entry.task.version for task_id, entry in current.entries.items())
            if not current.over or not packed or current.moved != source.moved:
                return set(current.entries) & set(kept)
            if await self._writer.delete(current):
                return set()
            current = await self._legible(source.name)
        return set()

    async def _close(self, pack: Segment) -> None:
        def close(held: Segment, _: bool) -> tuple[Segment, None]:
            return replace(held, closed=True), None

        with contextlib.suppress(Gone, DamagedRecord):
            await self._writer.change(pack.name, close)


def _without_packed(lane: Segment, kept: dict[str, int]) -> tuple[Segment, Segment]:
    packed = [
        entry.task.id
        for entry in lane.tasks()
        if entry.task.status.ended and kept.get(entry.task.id) == entry.task.version
    ]
    after = lane.without(packed) if packed else lane
    return after, after


def _number(pack: str) -> int:
    return int(pack.rpartition("/")[2].removesuffix(".json"))


def _size(entry: Entry) -> int:
    task = entry.task
    return len(bytes(task.input_json)) + len(bytes(task.output_json)) + 500
