"""Packs of ended tasks: what is in which of them, known without reading them.

A summary of each pack (counts, spans of time) is kept together with the pack's tag, in one object
for all packs of a shard. It is only ever a memory: where the tag is another, the pack is read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.base import Query
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.names import born, done_folder, shard_of, tail_of
from tenure.stores.s3.packing import Packing
from tenure.stores.s3.segments import Segment, fresh_nonce
from tenure.stores.s3.shelves import in_parallel
from tenure.stores.s3.writer import Writer
from tenure.task import FORMAT, TaskStatus
from tenure.times import Moment

NEWS = 16
"""So many summaries that nobody has written down yet are worth a write."""


class Summary(msgspec.Struct, frozen=True):
    """What one version of a pack holds."""

    etag: str
    lanes: list[tuple[str, str, TaskStatus, int]]
    ended: dict[TaskStatus, tuple[Moment, Moment]]
    orders: tuple[int, int]
    born: tuple[Moment, Moment] | None = None
    chosen_ids: bool = False

    def may_match(self, query: Query) -> bool:
        """Whether a task of the query's status, type and queue is among them."""
        return any(
            query.status in (None, status) and query.type in (None, type_) and query.queue in (None, queue)
            for queue, type_, status, _ in self.lanes
        )

    def may_hold(self, task_id: str) -> bool:
        if tail_of(task_id) is None:
            return self.chosen_ids
        return self.born is not None and self.born[0] <= born(task_id) <= self.born[1]


class Known(NamedTuple):
    """A pack by name, with its summary, and when in the life of this process that was learnt."""

    name: str
    summary: Summary
    learnt: int


class _Memory(msgspec.Struct):
    format: int
    nonce: str
    packs: dict[str, Summary]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Memory).decode


class Packs:
    """All packs of all shards."""

    def __init__(self, bucket: Bucket, writer: Writer, packing: Packing, shards: Callable[[], int]) -> None:
        self._bucket, self._writer, self._packing, self._shards = bucket, writer, packing, shards
        self._known: dict[str, Summary] = {}
        self._learnt: dict[str, int] = {}
        self.tick = 0
        self._asked: set[int] = set()
        self._unwritten: Counter[int] = Counter()

    async def all(self) -> list[Known]:
        """Every pack that holds something: a request for each thousand, and one for each that nobody has summed up."""
        found = await asyncio.gather(*(self._of(shard) for shard in range(self._shards())))
        return [known for each in found for known in each]

    async def _of(self, shard: int) -> list[Known]:
        listed = await self._bucket.names(done_folder(shard))
        if any(self._is_news(each) for each in listed) and shard not in self._asked:
            self._asked.add(shard)
            if (memory := await self._bucket.read(_name(shard))) is not None:
                self._known = {**_remembered(memory.body), **self._known}
        news = [each for each in listed if self._is_news(each)]
        await in_parallel(self._sum_up, news)
        self._unwritten[shard] += len(news)
        if self._unwritten[shard] >= NEWS:
            await self._write_down(shard, {each.name for each in listed})
        known = [(each.name, self._known.get(each.name)) for each in listed]
        return [
            Known(name, summary, self._learnt.get(name, 0))
            for name, summary in known
            if summary is not None and summary.lanes
        ]

    def _is_news(self, listed: Listed) -> bool:
        known = self._known.get(listed.name)
        return (known is None or known.etag != listed.etag) and not self._writer.damage.knows(listed)

    async def _sum_up(self, listed: Listed) -> None:
        pack = await self.read(listed.name)
        if pack is None:
            self._known.pop(listed.name, None)
        else:
            self.tick += 1
            self._known[listed.name], self._learnt[listed.name] = summary(pack), self.tick

    async def read(self, name: str) -> Segment | None:
        """A pack with nothing under way; None when there is none, or nobody can read it."""
        try:
            pack = await self._writer.read(name)
            while pack is not None and pack.arriving:
                await self._packing.finish(pack)
                pack = await self._writer.read(name)
        except DamagedRecord:
            return None
        return pack

    async def _write_down(self, shard: int, names: set[str]) -> None:
        """Let others, and this process when it starts again, know without reading."""
        self._unwritten[shard] = 0
        found = await self._bucket.read(_name(shard))
        nonce = fresh_nonce()
        packs = {name: each for name, each in self._known.items() if name in names and shard_of(name) == shard}
        body = _encode(_Memory(FORMAT, nonce, packs))
        if found is None:
            await self._bucket.create(_name(shard), body, nonce)
        else:
            await self._bucket.replace(_name(shard), body, nonce, found.etag)


def _remembered(body: bytes) -> dict[str, Summary]:
    """What somebody has written down; what cannot be read, or makes no sense, is summed up anew."""
    try:
        memory = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if memory.format > FORMAT:
        return {}
    return {
        name: each
        for name, each in memory.packs.items()
        if {status for _, _, status, _ in each.lanes} <= set(each.ended)
    }


def summary(pack: Segment) -> Summary:
    """Sum a pack up."""
    tasks = [entry.task for entry in pack.entries.values()]
    lanes = Counter((task.queue, task.type, task.status) for task in tasks)
    ended: dict[TaskStatus, tuple[datetime, datetime]] = {}
    for task in tasks:
        moment = task.ended_at
        assert moment is not None
        first, last = ended.get(task.status, (moment, moment))
        ended[task.status] = min(first, moment), max(last, moment)
    orders = [entry.order for entry in pack.entries.values()]
    births = [born(task.id) for task in tasks if tail_of(task.id)]
    return Summary(
        pack.etag,
        [(*lane, count) for lane, count in lanes.items()],
        ended,
        (min(orders, default=0), max(orders, default=0)),
        (min(births), max(births)) if births else None,
        len(births) < len(tasks),
    )


def _name(shard: int) -> str:
    return f"summaries/{shard:03d}.json"
