"""Reading segments: what a listing shows and this process does not know yet is fetched, the rest is known.

A listing gives the tag of every object, so an object is fetched only when it has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tenure.errors import DamagedRecord
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.leaving import arrive
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.names import PAUSES, is_later, promised, tasks_folder
from tenure.stores.s3.segments import Segment, fresh_nonce, replace
from tenure.stores.s3.writer import Gone, Writer

AT_ONCE = 32
"""Requests that one call keeps in the air."""
PATIENCE = timedelta(seconds=60)
"""How long a move may take before whoever meets it calls it off."""


class Front(NamedTuple):
    """Names in a shard; `last` is where to go on when there are more ready ones."""

    listed: list[Listed]
    last: str | None


class Shelves:
    """The segments of all shards."""

    def __init__(
        self, bucket: Bucket, mirror: Mirror, writer: Writer, shards: Callable[[], int], clock: Callable[[], datetime]
    ) -> None:
        self.bucket, self.mirror, self.writer = bucket, mirror, writer
        self._shards, self._clock = shards, clock

    @property
    def shards(self) -> range:
        return range(self._shards())

    async def front(self, shard: int) -> Front:
        """What needs attention first: one request, or two when a thousand segments are ready."""
        folder = tasks_folder(shard)
        page = await self.bucket.page(folder)
        listed, more, last = list(page.objects), page.more, page.objects[-1].name if page.objects else ""
        self._forget_missing(shard, listed, last if more else "~", page.asked)
        if more and promised(last) is not None and not is_later(last):
            behind = await self.bucket.page(folder, f"{folder}k")
            listed += behind.objects
        return Front(listed, last if more and not is_later(last) else None)

    async def next_page(self, shard: int, front: Front) -> Front:
        """The ready segments behind those that a front shows."""
        assert front.last is not None
        page = await self.bucket.page(tasks_folder(shard), front.last)
        last = page.objects[-1].name if page.objects else ""
        return Front(page.objects, last if page.more and not is_later(last) else None)

    async def all_names(self) -> list[Listed]:
        """Every segment of every shard, a request for each thousand."""
        asked = time.monotonic()
        listed = await asyncio.gather(*(self.bucket.names(tasks_folder(shard)) for shard in self.shards))
        for shard, names in zip(self.shards, listed, strict=True):
            self._forget_missing(shard, names, "~", asked)
        return [each for names in listed for each in names if not each.name.endswith(PAUSES)]

    async def everything(self) -> list[Segment]:
        """Every segment of every shard."""
        return await self.read(await self.all_names())

    def _forget_missing(self, shard: int, listed: Iterable[Listed], last: str, asked: float) -> None:
        names = {each.name for each in listed}
        for known in self.mirror.within(tasks_folder(shard)):
            if known not in names and known <= last and self.mirror.learnt(known) < asked:
                self.mirror.drop(known)

    async def read(self, listed: Sequence[Listed]) -> list[Segment]:
        """These segments, in this order; those that have gone meanwhile, and those that nobody can read, are left out."""
        unknown = self._unknown(listed)
        if unknown and await self.writer.answered(unknown):
            # What a listing showed of them before their own answers came is known by now.
            unknown = self._unknown(listed)
        await in_parallel(self._fetch, unknown)
        found = [segment for each in listed if (segment := self.mirror.get(each.name)) is not None]
        if any(segment.arriving for segment in found):
            await in_parallel(self._settle_arrivals, [segment for segment in found if segment.arriving])
            found = [now for segment in found if (now := self.mirror.get(segment.name)) is not None]
        return found

    def _unknown(self, listed: Sequence[Listed]) -> list[str]:
        damage = self.writer.damage
        return [each.name for each in listed if not self.mirror.has(each) and not damage.knows(each)]

    async def read_one(self, name: str) -> Segment | None:
        """One segment as it is now."""
        segment = await self._fetch(name)
        if segment is not None and segment.arriving and name.startswith("tasks/"):
            await self._settle_arrivals(segment)
            segment = self.mirror.get(name)
        return segment

    async def _fetch(self, name: str) -> Segment | None:
        try:
            return await self.writer.read(name)
        except DamagedRecord:
            return None

    async def _settle_arrivals(self, segment: Segment) -> None:
        """Find out what became of moves that are under way, or whose mover died."""
        for source in set(segment.arriving.values()):
            ids = [task_id for task_id, each in segment.arriving.items() if each == source]
            try:
                await self._settle(segment, source, ids)
            except DamagedRecord:
                # Nobody can run them where they come from.
                await arrive(self.writer, segment.name, ids, here=True)

    async def _settle(self, segment: Segment, source: str, ids: list[str]) -> None:
        found = await self.writer.read(source)
        here = [task_id for task_id in ids if found is not None and found.moved.get(task_id) == segment.name]
        if here:
            await arrive(self.writer, segment.name, here, here=True)
        undecided = [task_id for task_id in ids if task_id not in here]
        if not undecided:
            return
        if found is not None:
            if segment.since is not None and abs(self._clock() - segment.since) < PATIENCE:
                return
            # A new version of the source, so that the mover, should it live, cannot finish any more.
            try:
                moved = await self.writer.change(
                    source, lambda held, _: (replace(held, etag=fresh_nonce()), held.moved)
                )
            except Gone:
                return
            undecided = [task_id for task_id in undecided if moved.get(task_id) != segment.name]
        await arrive(self.writer, segment.name, undecided, here=False)


async def in_parallel(call: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call for each item, a bounded number at a time; the answers in order."""
    if len(items) <= 1:
        return [await call(item) for item in items]
    free = asyncio.Semaphore(AT_ONCE)

    async def limited(item: Any) -> Any:
        async with free:
            return await call(item)

    return list(await asyncio.gather(*(limited(item) for item in items)))
