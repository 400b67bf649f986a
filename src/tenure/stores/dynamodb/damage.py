"""Records that nobody can read are taken out of the way of the others, and kept."""

from __future__ import annotations

from datetime import datetime

from tenure.errors import DamagedRecord
from tenure.stores.base import Note
from tenure.stores.dynamodb.counting import OPEN_TASKS, Tally
from tenure.stores.dynamodb.items import DAMAGED, PLACES, log
from tenure.stores.dynamodb.noting import put_note
from tenure.stores.dynamodb.together import Parts
from tenure.stores.dynamodb.trouble import Cancelled
from tenure.stores.dynamodb.wire import Item, equal
from tenure.task import OPEN


async def set_aside(parts: Parts, item: Item, damage: DamagedRecord, now: datetime) -> None:
    """Take an item out of the indexes and the counts, and leave a note about it."""
    tally: Tally = Tally()
    status = item.get("status", "")
    if "queue" in item and "job_type" in item:
        tally[item["queue"], item["job_type"], OPEN_TASKS if status in OPEN else status] -= 1
    away = parts.table.update(
        (item[parts.table.pk], item[parts.table.sk]),
        {"status": DAMAGED},
        condition=equal(status=status, version=item.get("version")),
        remove=PLACES,
    )
    with parts.counts.actions(tally) as counting:
        try:
            await parts.table.transact([away, *counting])
        except Cancelled:
            return
    log.error("%s", damage)
    await put_note(parts.table, parts.keys, Note(DAMAGED, damage.task_id, {"why": str(damage)}), None, now)
