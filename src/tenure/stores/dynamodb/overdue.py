"""What time has caught up with: leases that ran out, deadlines that passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.dynamodb.damage import set_aside
from tenure.stores.dynamodb.items import load
from tenure.stores.dynamodb.keys import LAST, TIME
from tenure.stores.dynamodb.table import READ_AT_ONCE
from tenure.stores.dynamodb.together import Parts
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Item
from tenure.task import Task, TaskStatus
from tenure.times import to_text


async def overdue(parts: Parts, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
    """Such tasks, longest overdue first. The index says where to look, the item whether it is so."""
    tasks: list[Task] = []
    if limit:
        async for found in _pieces(parts, now, limit, only):
            tasks += found
            if len(tasks) >= limit:
                break
    return tasks[:limit]


async def count_overdue(
    parts: Parts, now: datetime, limit: int, only: TaskStatus, since: datetime | None
) -> dict[str, int]:
    """How many of them there are of each type; no more records are kept than are read at once."""
    counts: Counter[str] = Counter()
    # Nothing becomes overdue in no time, and DynamoDB refuses a range whose end is before its beginning.
    if limit and (since is None or since < now):
        async for found in _pieces(parts, now, limit, only, since):
            types = [task.type for task in found if lifecycle.became_overdue(task, since, now)]
            counts.update(types[: limit - counts.total()])
            if counts.total() == limit:
                break
    return counts


async def _pieces(
    parts: Parts, now: datetime, limit: int, only: TaskStatus | None, since: datetime | None = None
) -> AsyncIterator[list[Task]]:
    keys = parts.keys
    indexes = {TaskStatus.Running: keys.leases, TaskStatus.Pending: keys.deadlines}
    pks = [pk for status, index in indexes.items() if only in (None, status) for pk in keys.every(index)]
    # The ends of leases move: one that the index still shows before that may have been renewed.
    above = _end(since) if since is not None and only is TaskStatus.Pending else None
    batch: list[Item] = []
    async for entry in merged(parts.table, TIME, pks, above=above, up_to=_end(now), page=limit):
        batch.append(entry)
        if len(batch) == READ_AT_ONCE:
            yield await _looked_at(parts, batch, now, only)
            batch = []
    yield await _looked_at(parts, batch, now, only)


def _end(moment: datetime) -> str:
    """Sorts after everything in the index that stands at this moment."""
    return f"scheduled#{to_text(moment)}#{LAST}"


async def _looked_at(parts: Parts, entries: list[Item], now: datetime, only: TaskStatus | None) -> list[Task]:
    places = [(entry[parts.table.pk], entry[parts.table.sk]) for entry in entries]
    found = await parts.table.get(places) if places else {}
    tasks = []
    for place in places:
        item = found.get(place)
        if item is None or "all_sk" not in item:
            continue
        task_id = parts.keys.task_id(place[0])
        parts.ranks.learn(task_id, item)
        try:
            task = load(item, task_id)
        except DamagedRecord as damage:
            await set_aside(parts, item, damage, now)
            continue
        if only in (None, task.status) and lifecycle.overdue(task, now) is not None:
            tasks.append(task)
    return tasks
