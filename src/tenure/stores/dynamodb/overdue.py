"""What time has caught up with: leases that ran out, deadlines that passed."""

from __future__ import annotations

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
from tenure.task import Task
from tenure.times import to_text


async def overdue(parts: Parts, now: datetime, limit: int) -> list[Task]:
    """Such tasks, longest overdue first. The index says where to look, the item whether it is so."""
    keys = parts.keys
    pks = [*keys.every(keys.leases), *keys.every(keys.deadlines)]
    tasks: list[Task] = []
    batch: list[Item] = []
    if not limit:
        return []
    async for entry in merged(parts.table, TIME, pks, up_to=f"scheduled#{to_text(now)}#{LAST}", page=limit):
        batch.append(entry)
        if len(batch) == READ_AT_ONCE:
            tasks += await _looked_at(parts, batch, now)
            batch = []
        if len(tasks) >= limit:
            return tasks[:limit]
    tasks += await _looked_at(parts, batch, now)
    return tasks[:limit]


async def _looked_at(parts: Parts, entries: list[Item], now: datetime) -> list[Task]:
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
        if lifecycle.overdue(task, now) is not None:
            tasks.append(task)
    return tasks
