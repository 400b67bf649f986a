"""Giving everything out in pieces, and taking pieces in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from tenure.errors import DamagedRecord
from tenure.stores.base import Piece, Query
from tenure.stores.cursors import not_of_a_dump
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.finding import Finding
from tenure.stores.s3.ids import Ids
from tenure.stores.s3.names import tail_of
from tenure.stores.s3.places import Places
from tenure.stores.s3.placing import Placing
from tenure.stores.s3.reservations import FOLDER, Reservations
from tenure.stores.s3.segments import Entry, Segment, replace
from tenure.stores.s3.shelves import Shelves, in_parallel
from tenure.stores.s3.writer import Gone, Writer
from tenure.task import Task

TASKS, STONES, RECORDS = "tasks", "stones", "records"
PATIENCE, LOOKS = 5.0, 50
"""Seconds, and how often within them, to look for the task of an id that somebody has just reserved."""


class Moving:
    """Everything that a store keeps."""

    def __init__(
        self,
        shelves: Shelves,
        finding: Finding,
        places: Places,
        placing: Placing,
        ids: Ids,
        reservations: Reservations,
        writer: Writer,
    ) -> None:
        self._shelves, self._finding, self._places, self._placing = shelves, finding, places, placing
        self._ids, self._reservations, self._writer = ids, reservations, writer
        self._bucket: Bucket = shelves.bucket

    async def dump(self, cursor: str | None, limit: int) -> Piece:
        """Tasks, then stones, then records."""
        part, _, rest = (f"{TASKS} " if cursor is None else cursor).partition(" ")
        if part == TASKS:
            page = await self._finding.find(Query(oldest=True, limit=limit, cursor=rest or None))
            damaged = [] if page.cursor else self._writer.damage.names()
            return Piece(page.tasks, damaged=damaged, cursor=f"{TASKS} {page.cursor}" if page.cursor else f"{STONES} ")
        if part == STONES:
            stones, damaged, last = await self._records("ids/", rest, limit, self._stone)
            return Piece(stones=stones, damaged=damaged, cursor=f"{STONES} {last}" if last else f"{RECORDS} ")
        if part == RECORDS:
            held, damaged, last = await self._records(FOLDER, rest, limit, self._reservations.read_listed)
            records = [each.reservation for each in held]
            return Piece(reservations=records, damaged=damaged, cursor=f"{RECORDS} {last}" if last else None)
        raise not_of_a_dump(cursor)

    async def _records(
        self, folder: str, after: str, limit: int, read: Callable[[Any], Awaitable[Any]]
    ) -> tuple[list[Any], list[str], str | None]:
        """What a part of a folder holds, the names of those that nobody can read, and where to go on."""
        page = await self._bucket.page(folder, after, min(limit, 1000))
        damaged: list[str] = []

        async def read_one(listed: Listed) -> Any:
            try:
                return await read(listed)
            except DamagedRecord as damage:
                self._writer.damage.mention(listed.name, str(damage))
                damaged.append(listed.name)

        held = await in_parallel(read_one, page.objects)
        return [each for each in held if each is not None], damaged, page.objects[-1].name if page.more else None

    async def _stone(self, listed: Listed) -> Task | None:
        held = await self._ids.read_listed(listed)
        return None if held is None else held.stone

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        """Put in what is absent."""
        there = Piece([], [], [])
        known = await self._known([*piece.tasks, *piece.stones], now)
        known |= await self._put_in([task for task in piece.tasks if task.id not in known], now)
        there.tasks.extend(known[task.id] for task in piece.tasks if task.id in known)
        for stone in piece.stones:
            found = known.get(stone.id) or await self._lay(stone, now)
            if found is not None:
                there.stones.append(found)
        for reservation in piece.reservations:
            while True:
                held = await self._reservations.read(reservation)
                if held is None:
                    if await self._reservations.create(reservation, None) is not None:
                        break
                elif not held.reservation.is_stale_at(now):
                    there.reservations.append(held.reservation)
                    break
                elif await self._reservations.replace(held, reservation, None) is not None:
                    break
        return there

    async def _known(self, records: list[Task], now: datetime) -> dict[str, Task]:
        found = await self._places.find(task.id for task in records)
        known = {task_id: entry.task for task_id, (_, entry) in found.items()}
        rest = [task.id for task in records if task.id not in known]
        stones = await in_parallel(lambda task_id: self._ids.stone(task_id, now), rest)
        return known | {stone.id: stone for stone in stones if stone is not None}

    async def _lay(self, stone: Task, now: datetime) -> Task | None:
        """Leave a stone if the id is free; else what it belongs to."""
        while not await self._ids.lay(stone):
            if (other := await self._owner(stone, now)) is not None:
                return other
            if (held := await self._ids.read(stone.id)) is not None:
                await self._ids.forget(held)
        return None

    async def _owner(self, task: Task, now: datetime) -> Task | None:
        """Whom an id with a record belongs to. One that is being submitted at this moment is waited for."""
        for _ in range(LOOKS):
            if (known := await self._known([task], now)) or await self._ids.read(task.id) is None:
                return known.get(task.id)
            await asyncio.sleep(PATIENCE / LOOKS)
        return None

    async def _put_in(self, tasks: list[Task], now: datetime) -> dict[str, Task]:
        """Write the tasks in order; those that others were faster with."""
        names = dict(zip((task.id for task in tasks), self._placing.names_of(tasks, now), strict=True))
        there: dict[str, Task] = {}

        async def reserve(task: Task) -> None:
            while tail_of(task.id) is None and not await self._ids.reserve(task.id, names[task.id]):
                if (other := await self._owner(task, now)) is not None:
                    there[task.id] = other
                    return
                if (held := await self._ids.read(task.id)) is not None and await self._ids.point(held, names[task.id]):
                    return

        await in_parallel(reserve, tasks)
        groups: dict[str, dict[str, Entry]] = {}
        for entry in self._placing.entries([task for task in tasks if task.id not in there], now):
            groups.setdefault(names[entry.task.id], {})[entry.task.id] = entry
        for found in await in_parallel(self._write, list(groups.items())):
            there |= found
        return there

    async def _write(self, pair: tuple[str, dict[str, Entry]]) -> dict[str, Task]:
        name, entries = pair

        def add(segment: Segment, _: bool) -> tuple[Segment, dict[str, Task]]:
            there = {task_id: entry.task for task_id, entry in segment.entries.items() if task_id in entries}
            return replace(segment, entries={**entries, **segment.entries}), there

        while await self._writer.create(Segment(name, "", entries)) is None:
            try:
                return await self._writer.change(name, add)
            except Gone:
                continue
        return {}
