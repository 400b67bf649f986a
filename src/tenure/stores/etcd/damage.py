"""Records that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.base import Note
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import Lane, name, unpack
from tenure.stores.etcd.noting import put_note
from tenure.stores.etcd.records import log, read_pairs
from tenure.stores.etcd.requests import unmodified
from tenure.stores.etcd.writing import Batch

DAMAGED = "damaged"


class _Lane(msgspec.Struct):
    """What may still be legible of a damaged record."""

    task_type: str
    queue: str = "default"


async def set_aside(
    db: Database,
    damage: DamagedRecord,
    now: datetime,
    place: bytes = b"",
    ordering_key: str | None = None,
    entries: Iterable[bytes] = (),
) -> None:
    """Take a record that nobody can read out of the way of the others, and leave a note about it.

    The record itself stays where it is. Its entries in the indexes are taken away by those who meet them. With its
    place and its ordering key, which its due entry still tells, the next task of that key gets its turn.
    """
    layout, task_id = db.layout, damage.task_id
    ((record, claim),) = await read_pairs(db.client, layout, [task_id])
    if record is None:
        return
    log.error("%s", damage)
    batch = Batch()
    stored_place, json = unpack(record.value)
    place = place or stored_place
    batch.compares.append(unmodified(layout.task(task_id), record.mod_revision))
    batch.deletes |= {layout.key(b"open", place, name(task_id)), *entries}
    if claim is not None:
        batch.deletes.add(layout.claim(task_id))
    if ordering_key is not None:
        batch.deletes |= {layout.line(ordering_key) + place + b"/" + name(task_id), layout.turn(ordering_key)}
        batch.puts[layout.unsettled(ordering_key)] = b""
    try:
        lane = msgspec.json.decode(json, type=_Lane)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        lane = None
    if lane is not None:
        batch.counts[lane.queue, lane.task_type, "running" if claim else "pending"] -= 1
    await db.commit(batch)
    await put_note(db, Note(DAMAGED, task_id, {"why": str(damage)}), None, now)


async def discard(db: Database, task_id: str, lane: Lane) -> None:
    """Take away the claim of a task whose record somebody has deleted by hand."""
    batch = Batch()
    batch.compares.append(unmodified(db.layout.task(task_id), 0))
    batch.deletes.add(db.layout.claim(task_id))
    batch.counts[lane.queue, lane.type, "running"] -= 1
    await db.commit(batch)
