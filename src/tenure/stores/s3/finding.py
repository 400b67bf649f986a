"""Listings and counts: open segments are all looked at, packs only as far as their summaries say so."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tenure.stores.base import Count, Due, Page, Query, first_of_each
from tenure.stores.cursors import not_of_a_listing
from tenure.stores.matching import matches
from tenure.stores.s3.packs import Known, Packs
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import Shelves
from tenure.task import TaskStatus
from tenure.times import to_micros

_CURSOR = re.compile(r"(-?\d{1,20})\.(\d{1,20})")
Rank = tuple[int, int]


class Finding:
    """Reads everything that there is, in the order that is asked for."""

    def __init__(self, shelves: Shelves, packs: Packs) -> None:
        self._shelves, self._packs = shelves, packs

    async def find(self, query: Query) -> Page:
        after = (
            None
            if query.cursor is None
            else _read_cursor(query.cursor, by_end=query.status is not None and query.status.ended)
        )
        segments = await self._shelves.everything()
        hot = {entry.task.id for segment in segments for entry in segment.tasks()}
        found = _best(_passing(segments, query, after), query)
        # No open task is in a pack.
        known_packs = await self._packs.all() if query.status is None or query.status.ended else []
        packs = [known for known in known_packs if known.summary.may_match(query)]
        for known in sorted(packs, key=lambda known: _bound(known, query), reverse=not query.oldest):
            if len(found) > query.limit and not _before(_bound(known, query), found[-1][0], query):
                break
            pack = await self._packs.read(known.name)
            if pack is not None:
                passing = [each for each in _passing([pack], query, after) if each[1].task.id not in hot]
                found = _best([*found, *passing], query)
        page = found[: query.limit]
        cursor = f"{page[-1][0][0]}.{page[-1][0][1]}" if len(found) > len(page) else None
        return Page([entry.task for _, entry in page], cursor)

    async def due(self, now: datetime) -> list[Due]:
        """Since when something has been due in each queue and type."""
        query = Query(status=TaskStatus.Pending, available_by=now)
        segments = await self._shelves.everything()
        tasks = [entry.task for segment in segments for entry in segment.tasks() if matches(entry.task, query)]
        return first_of_each(Due(task.queue, task.type, task.available_at) for task in tasks)

    async def count(self) -> list[Count]:
        tick = self._packs.tick
        segments = await self._shelves.everything()
        counts: Counter[tuple[str, str, TaskStatus]] = Counter()
        for segment in segments:
            counts.update((entry.task.queue, entry.task.type, entry.task.status) for entry in segment.tasks())
        for known in await self._packs.all():
            if known.learnt > tick and (pack := await self._packs.read(known.name)) is not None:
                # What was tidied into it since the listing has been counted already.
                hot = {entry.task.id for segment in segments for entry in segment.tasks()}
                rest = [entry.task for entry in pack.tasks() if entry.task.id not in hot]
                counts.update((task.queue, task.type, task.status) for task in rest)
                continue
            for queue, type_, status, count in known.summary.lanes:
                counts[queue, type_, status] += count
        return [Count(*lane, count=count) for lane, count in sorted(counts.items())]


def _passing(segments: Iterable[Segment], query: Query, after: Rank | None) -> list[tuple[Rank, Entry]]:
    return [
        (rank, entry)
        for segment in segments
        for entry in segment.tasks()
        if matches(entry.task, query)
        for rank in [_rank(entry, query)]
        if after is None or _before(after, rank, query)
    ]


def _rank(entry: Entry, query: Query) -> Rank:
    ended_at = entry.task.ended_at if query.status is not None and query.status.ended else None
    return (0 if ended_at is None else to_micros(ended_at)), entry.order


def _before(one: Rank, other: Rank, query: Query) -> bool:
    """Whether one comes before the other in the listing."""
    return one < other if query.oldest else one > other


def _best(found: list[tuple[Rank, Entry]], query: Query) -> list[tuple[Rank, Entry]]:
    """What may stand on the page, and one more to know whether others follow."""
    pick = heapq.nsmallest if query.oldest else heapq.nlargest
    return pick(query.limit + 1, found, key=lambda each: each[0])


def _bound(known: Known, query: Query) -> Rank:
    """No task of the pack comes before this in the listing."""
    summary = known.summary
    end = 0 if query.oldest else 1
    if query.status is not None and query.status.ended:
        return to_micros(summary.ended[query.status][end]), summary.orders[end]
    return 0, summary.orders[end]


def _read_cursor(cursor: str, *, by_end: bool) -> Rank:
    found = _CURSOR.fullmatch(cursor)
    if found is None or bool(int(found[1])) != by_end:
        raise not_of_a_listing(cursor)
    return int(found[1]), int(found[2])
