"""Records that nobody can read are taken out of the way of the others, and kept."""

from __future__ import annotations

from datetime import datetime

from tenure.errors import DamagedRecord
from tenure.stores.base import Note
from tenure.stores.dynamodb.counting import OPEN_TASKS, Tally
from tenure.stores.dynamodb.items import DAMAGED, PLACES, log
from tenure.stores.dynamodb.noting import put_note
from tenure.stores.dynamodb.ordering import leave
from tenure.stores.dynamodb.table import TRIES
from tenure.stores.dynamodb.together import CONDITION, Parts
from tenure.stores.dynamodb.trouble import Cancelled
from tenure.stores.dynamodb.wire import Item, equal
from tenure.task import OPEN


async def set_aside(parts: Parts, item: Item, damage: DamagedRecord, now: datetime) -> None:
    """Take an item out of the indexes, the counts and the turns of its key, and leave a note about it."""
    tally: Tally = Tally()
    status = item.get("status", "")
    if "queue" in item and "job_type" in item:
        tally[item["queue"], item["job_type"], OPEN_TASKS if status in OPEN else status] -= 1
    away = parts.table.update(
        (item[parts.table.pk], item[parts.table.sk]),
        {"status": DAMAGED},
        condition=equal(status=item.get("status"), version=item.get("version")),
        remove=PLACES,
    )
    for attempt in range(TRIES):
        if attempt:
            await parts.table.pause(attempt)
        try:
            turns = await leave(parts, item, now)
            with parts.counts.actions(tally) as counting:
                await parts.table.transact([away, *turns, *counting])
        except DamagedRecord as follower:
            await set_named_aside(parts, follower, now)
        except Cancelled as cancelled:
            if cancelled.reasons[0].code == CONDITION:
                return
        else:
            break
    else:
        return
    log.error("%s", damage)
    await put_note(parts.table, parts.keys, Note(DAMAGED, damage.task_id, {"why": str(damage)}), None, now)


async def set_named_aside(parts: Parts, damage: DamagedRecord, now: datetime) -> None:
    """The same for a task that was met on the way to another."""
    key = parts.keys.task(damage.task_id)
    item = (await parts.table.get([key])).get(key)
    if item is not None and "all_sk" in item:
        await set_aside(parts, item, damage, now)
