"""Which lanes are in use: a claim has to know where to look.

A lane is written down before the first task stands in it. Everyone who uses it writes that again
now and then, so that a lane that nobody has used for days can be struck off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

from tenure.stores.base import Due, Want, first_of_each
from tenure.stores.dynamodb.keys import DUE, LAST, Keys, Lane, read_scheduled_key
from tenure.stores.dynamodb.table import Table
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Item, equal
from tenure.task import Task
from tenure.times import from_text, to_text

WRITE_AGAIN = timedelta(hours=1)
"""How long after the last time a process that uses a lane writes that down again, by the store's clock: who strikes lanes off goes by it, too."""
UNUSED = timedelta(days=2)
"""A lane that was not written down for this long, and is empty, is struck off."""


class Lanes:
    """The lanes of one store, and which of them this process has written down."""

    def __init__(self, table: Table, keys: Keys) -> None:
        self._table, self._keys = table, keys
        self._written: dict[Lane, datetime] = {}

    async def ensure(self, tasks: Iterable[Task], now: datetime) -> None:
        """Write down the lanes of tasks that are about to stand in them."""
        wanted = {Lane(task.queue, task.type, task.priority) for task in tasks}
        new = [lane for lane in wanted if lane not in self._written or now - self._written[lane] >= WRITE_AGAIN]
        if not new:
            return
        await asyncio.gather(*(self._write(lane, now) for lane in new))
        lately = {lane: at for lane, at in self._written.items() if now - at < WRITE_AGAIN}
        self._written = lately | dict.fromkeys(new, now)

    async def _write(self, lane: Lane, now: datetime) -> None:
        values = {"queue": lane.queue, "job_type": lane.type, "priority": lane.priority, "used_at": to_text(now)}
        await self._table.write(self._table.update(self._keys.lane(lane), values))

    async def wanted(self, want: Want, paused: Iterable[str]) -> dict[int, list[Lane]]:
        """The lanes from which a worker may take, by priority, highest first."""
        queues = set(want.queues) - set(paused)
        found: dict[int, list[Lane]] = {}
        for item in await self._table.partition(self._keys.lanes):
            lane = _read(item)
            if lane.queue in queues and lane.type in want.types:
                found.setdefault(lane.priority, []).append(lane)
        return dict(sorted(found.items(), reverse=True))

    async def due(self, now: datetime) -> list[Due]:
        """Since when something has been due in each queue and type: the first entry of each lane tells."""
        lanes = [_read(item) for item in await self._table.partition(self._keys.lanes)]
        firsts = await asyncio.gather(*(self._first_due(lane, now) for lane in lanes))
        return first_of_each(first for first in firsts if first is not None)

    async def _first_due(self, lane: Lane, now: datetime) -> Due | None:
        until = f"scheduled#{to_text(now)}#{LAST}"
        pks = self._keys.every(self._keys.due, lane)
        async for entry in merged(self._table, DUE, pks, up_to=until, page=1):
            return Due(lane.queue, lane.type, read_scheduled_key(entry["due_sk"])[0])
        return None

    async def strike_off(self, now: datetime) -> None:
        """Forget lanes that nobody has used for long."""
        for item in await self._table.partition(self._keys.lanes):
            if now - from_text(item["used_at"]) > UNUSED and await self._is_empty(_read(item)):
                try:
                    await self._table.write(
                        self._table.delete(self._keys.lane(_read(item)), equal(used_at=item["used_at"]))
                    )
                except ConditionFailed:
                    continue

    async def _is_empty(self, lane: Lane) -> bool:
        for pk in self._keys.every(self._keys.due, lane):
            async for _ in self._table.walk(pk, index=DUE, page=1):
                return False
        return True


def _read(item: Item) -> Lane:
    return Lane(item["queue"], item["job_type"], item["priority"])
