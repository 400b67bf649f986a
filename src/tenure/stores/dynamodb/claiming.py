"""Finding what can run, and taking it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

from tenure import lifecycle
from tenure.errors import DamagedRecord, StoreUnavailable
from tenure.stores.base import PAUSE, Change, Claimed, Want, paused_queues
from tenure.stores.dynamodb.changing import swap
from tenure.stores.dynamodb.damage import set_aside
from tenure.stores.dynamodb.items import load
from tenure.stores.dynamodb.keys import DUE, LAST, Lane, read_scheduled_key, scheduled_key
from tenure.stores.dynamodb.noting import notes
from tenure.stores.dynamodb.overdue import overdue
from tenure.stores.dynamodb.table import token
from tenure.stores.dynamodb.together import Parts
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Item, absent, both, compared, either, equal
from tenure.task import Task, TaskStatus
from tenure.times import to_text

OVERDUE_LIMIT = 1000
Clock = Callable[[], Awaitable[datetime]]


class Due(NamedTuple):
    """An entry of the index: since when a task can run, and where it stands."""

    moment: datetime
    rank: str
    lane: Lane
    entry: Item


class Claim:
    """One claim: what time has caught up with is settled, then the lanes are searched, highest priority first.

    The index only says where to look. Whether a task can be taken, the condition of the write decides.
    The way there may be longer than a lease, so a lease counts from the moment at which its task is taken.
    """

    def __init__(self, parts: Parts, want: Want, now: datetime, clock: Clock, turn: int) -> None:
        self.parts, self.want, self.now, self.clock, self.turn = parts, want, now, clock, turn
        self.taken_since = now
        self.tasks: list[Task] = []
        self.next_due: datetime | None = None
        self.trouble: StoreUnavailable | None = None

    async def run(self) -> Claimed:
        """The answer of the store."""
        late, pauses = await asyncio.gather(
            overdue(self.parts, self.now, OVERDUE_LIMIT), notes(self.parts.table, self.parts.keys, PAUSE)
        )
        settled = await self._settle(late)
        lanes = await self.parts.lanes.wanted(self.want, paused_queues(pauses, self.now))
        for same_priority in lanes.values():
            await self._search(same_priority)
        if self.trouble is not None and not self.tasks:
            raise self.trouble
        return Claimed(self.tasks, settled, None if self.tasks else self.next_due)

    async def _settle(self, late: list[Task]) -> list[Task]:
        changes = [Change(task, after, True) for task in late if (after := lifecycle.overdue(task, self.now))]
        done = await swap(self.parts, changes, self.now)
        return [change.after for change, fits in zip(changes, done, strict=True) if fits]

    async def _search(self, lanes: list[Lane]) -> None:
        """Take from lanes of one priority. Workers begin with different shards, so that they do not meet at one."""
        shards = self.parts.keys.shards
        for step in range(shards):
            shard = (self.turn + step) % shards
            entries = self._entries(lanes, shard)
            while await self._goes_on():
                batch = await self._next(entries, self.want.count - len(self.tasks))
                if not batch:
                    break
                await self._take(batch)

    async def _goes_on(self) -> bool:
        """Whether more is wanted. What was taken must begin before its lease is used up by the search for more."""
        if self.tasks and await self.clock() - self.taken_since > self.want.lease / 3:
            return False
        return len(self.tasks) < self.want.count or not self.want.count

    async def _entries(self, lanes: list[Lane], shard: int) -> AsyncIterator[Due]:
        by_place = {self.parts.keys.due(lane, shard): lane for lane in lanes}
        page = self.want.count - len(self.tasks) + 1
        # Who wants none still wants to know when the next one is due.
        above = None if self.want.count else f"scheduled#{to_text(self.now)}#{LAST}"
        async for entry in merged(self.parts.table, DUE, list(by_place), page=page, above=above):
            moment, rank = read_scheduled_key(entry["due_sk"])
            yield Due(moment, rank, by_place[entry["due_pk"]], entry)

    async def _next(self, entries: AsyncIterator[Due], count: int) -> list[Due]:
        """The next due entries, at most so many; and when the one after them is due."""
        batch: list[Due] = []
        async for due in entries:
            if due.moment > self.now:
                self.next_due = min(self.next_due or due.moment, due.moment)
                break
            batch.append(due)
            if len(batch) == count:
                break
        return batch

    async def _take(self, batch: list[Due]) -> None:
        self.now = await self.clock()
        self.taken_since = self.taken_since if self.tasks else self.now
        for answer in await asyncio.gather(*(self._take_one(due) for due in batch), return_exceptions=True):
            if isinstance(answer, Task):
                self.tasks.append(answer)
            elif isinstance(answer, StoreUnavailable):
                # What was taken beside it is not given up for it; if it was taken, its lease will lapse.
                self.trouble = answer
            elif isinstance(answer, BaseException):
                raise answer

    async def _take_one(self, due: Due) -> Task | None:
        parts, pk = self.parts, due.entry[self.parts.table.pk]
        task_id, mine = parts.keys.task_id(pk), token()
        until = lifecycle.later(self.now, self.want.lease)
        values: dict[str, Any] = {
            "status": TaskStatus.Running.value,
            "locked_by": self.want.worker_id,
            "lock_expires_at": to_text(until),
            "claimed_at": to_text(self.now),
            "policy_max": self.want.types[due.lane.type],
            "time_pk": parts.keys.leases(parts.keys.shard(task_id)),
            "time_sk": scheduled_key(until, due.rank),
            "write": mine,
        }
        condition = both(
            equal(due_pk=due.entry["due_pk"], due_sk=due.entry["due_sk"]),
            either(absent("expires_at"), compared("expires_at", ">", to_text(self.now))),
        )
        action = parts.table.update(
            parts.keys.task(task_id), values, condition=condition, add={"version": 1, "fence": 1},
            remove=("due_pk", "due_sk", "progress"),
        )  # fmt: skip
        try:
            item = await parts.table.write(action, mine=mine)
        except ConditionFailed:
            return None
        assert item is not None
        parts.ranks.learn(task_id, item)
        try:
            return load(item, task_id)
        except DamagedRecord as damage:
            await set_aside(parts, item, damage, self.now)
            return None
