"""Tasks that change their object, because they must be found under another time.

A task that backs off for long would stand in the front of the listing for nothing, and one that
an operator gives another life stands where nobody looks. Such a task moves, in three writes:

1. The target is written with the task marked as arriving from its source: it does not count yet.
2. The source is written without the task, saying where it moved. This is the moment of the change.
3. The target is written once more, without the mark.

Whoever meets a mark looks at the source, so it does not matter who dies when (see `arriving`).
The source goes only after the mark is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tenure.errors import DamagedRecord
from tenure.stores.s3.names import (
    LONG,
    attention,
    fresh_tail,
    is_lane,
    is_pack,
    lane_name,
    milliseconds,
    promised,
    segment_name,
    shard_of,
    tail_of,
)
from tenure.stores.s3.segments import Entry, Segment, replace
from tenure.stores.s3.writer import Gone, Writer
from tenure.task import TaskStatus


class Leaving:
    """Decides which tasks have to leave with a write, and where they go."""

    def __init__(self, writer: Writer, shards: Callable[[], int], clock: Callable[[], datetime]) -> None:
        self._writer, self._shards, self._clock = writer, shards, clock

    async def __call__(self, after: Segment) -> _Departure | None:
        """Prepare the targets; None when everything may stay."""
        now = self._clock()
        leaving = _leavers(after, now)
        if not leaving:
            return None
        targets: dict[str, list[Entry]] = {}
        fresh: dict[int, str] = {}
        for entry in leaving:
            task = entry.task
            if task.ordering_key is not None:
                name = lane_name(task.ordering_key, self._shards())
            else:
                if task.priority not in fresh:
                    earliest = min(attention(each.task) for each in leaving if each.task.priority == task.priority)
                    tail = tail_of(task.id) or fresh_tail()
                    fresh[task.priority] = segment_name(shard_of(after.name), task.priority, earliest, tail, now)
                name = fresh[task.priority]
            targets.setdefault(name, []).append(entry)
        for name, entries in targets.items():
            await self._prepare(name, entries, after.name, now)
        ids = {entry.task.id: name for name, entries in targets.items() for entry in entries}
        rest = replace(after.without(ids), moved={**after.moved, **ids})
        return _Departure(
            self._writer, rest, {name: [entry.task.id for entry in each] for name, each in targets.items()}
        )

    async def _prepare(self, name: str, entries: list[Entry], source: str, now: datetime) -> None:
        marks = {entry.task.id: source for entry in entries}
        added = {entry.task.id: entry for entry in entries}

        def add(segment: Segment, _: bool) -> tuple[Segment, None]:
            arriving = {**segment.arriving, **marks}
            return replace(segment, entries={**segment.entries, **added}, arriving=arriving, since=now), None

        while True:
            if await self._writer.create(Segment(name, "", added, arriving=marks, since=now)) is not None:
                return
            try:
                await self._writer.change(name, add)
            except Gone:
                continue
            return


class _Departure:
    """Tasks on their way out of one object."""

    def __init__(self, writer: Writer, after: Segment, targets: dict[str, list[str]]) -> None:
        self._writer, self.after, self._targets = writer, after, targets

    async def finish(self, written: Segment | None) -> None:
        """Take the marks off, or take the prepared tasks back when another write was faster."""
        for name, ids in self._targets.items():
            await arrive(self._writer, name, ids, here=written is not None)
        if written is not None and not is_pack(written.name) and written.empty:
            await self._writer.delete(written)


async def arrive(writer: Writer, name: str, ids: list[str], *, here: bool) -> None:
    """The tasks are here for good, or never come; an object that holds nothing then goes."""

    def settle(segment: Segment, _: bool) -> tuple[Segment, Segment]:
        marked = [task_id for task_id in ids if task_id in segment.arriving]
        if not marked:
            return segment, segment
        arriving = {task_id: source for task_id, source in segment.arriving.items() if task_id not in marked}
        settled = replace(segment, arriving=arriving)
        after = settled if here else settled.without(marked)
        return after, after

    try:
        after = await writer.change(name, settle)
        if after.empty and not after.moved and (now := await writer.read(name)) is not None and now.empty:
            await writer.delete(now)
    except (Gone, DamagedRecord):
        return


def _leavers(after: Segment, now: datetime) -> list[Entry]:
    if is_lane(after.name):
        return []
    waiting = [entry for entry in after.tasks() if not entry.task.status.ended]
    if not waiting or is_pack(after.name):
        return waiting
    promise = promised(after.name)
    assert promise is not None
    running = any(entry.task.status is TaskStatus.Running for entry in waiting)
    in_front = promise[1] <= milliseconds(now)
    if in_front and not running and all(attention(entry.task) - now > LONG for entry in waiting):
        return waiting
    return [
        entry
        for entry in waiting
        if entry.task.status is TaskStatus.Pending and milliseconds(attention(entry.task)) < promise[1]
    ]
