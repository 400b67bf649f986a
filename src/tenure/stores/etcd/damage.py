"""Records that cannot be read."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.base import Note
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import Lane, name, unpack
from tenure.stores.etcd.noting import put_note
from tenure.stores.etcd.records import log, read_claim, read_pairs
from tenure.stores.etcd.requests import KeyValue, unmodified
from tenure.stores.etcd.writing import Batch

DAMAGED = "damaged"


class _Legible(msgspec.Struct):
    """What may still be legible of a damaged record."""

    task_type: str
    queue: str = "default"


async def set_aside(
    db: Database,
    damage: DamagedRecord,
    now: datetime,
    place: bytes = b"",
    ordering_key: str | None = None,
    lane: Lane | None = None,
    deadline: KeyValue | None = None,
) -> None:
    """Take a record that nobody can read, or believe, out of the way of the others, and leave a note about it.

    The record itself stays where it is. Its entries in the indexes are taken away by those who meet them. With its
    place and its ordering key, which the entry that led to it still tells, the next task of that key gets its turn.
    If that was a deadline which is gone now, somebody was faster and the record is sound.
    """
    layout, task_id = db.layout, damage.task_id
    ((record, claim),) = await read_pairs(db.client, layout, [task_id])
    if record is None:
        return
    batch = Batch()
    stored_place, json = unpack(record.value)
    place = place or stored_place
    batch.compares.append(unmodified(layout.task(task_id), record.mod_revision))
    batch.deletes.add(layout.key(b"open", place, name(task_id)))
    if deadline is not None:
        batch.compares.append(unmodified(deadline.key, deadline.mod_revision))
        batch.deletes.add(deadline.key)
    if claim is not None:
        batch.deletes.add(layout.claim(task_id))
        ordering_key = ordering_key or read_claim(claim.value).ordering_key
    if ordering_key is not None:
        batch.deletes.add(layout.line(ordering_key) + place + b"/" + name(task_id))
        batch.puts[layout.unsettled(ordering_key)] = b""
        if claim is not None:
            batch.deletes.add(layout.turn(ordering_key))
    if lane := lane or _legible_lane(json):
        batch.counts[lane.queue, lane.type, "running" if claim else "pending"] -= 1
    if not (await db.commit(batch)).done:
        return
    log.error("%s", damage)
    await put_note(db, Note(DAMAGED, task_id, {"why": str(damage)}), None, now)


def _legible_lane(json: bytes) -> Lane | None:
    try:
        found = msgspec.json.decode(json, type=_Legible)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return Lane(found.queue, found.task_type, 0)


async def discard(db: Database, task_id: str, lane: Lane) -> None:
    """Take away the claim of a task whose record somebody has deleted by hand."""
    batch = Batch()
    batch.compares.append(unmodified(db.layout.task(task_id), 0))
    batch.deletes.add(db.layout.claim(task_id))
    batch.counts[lane.queue, lane.type, "running"] -= 1
    await db.commit(batch)
