"""Notes beside the tasks. How often etcd says that a key was written since it was made is the version of a note."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tenure.stores.base import Note
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import after, moment, name, plain
from tenure.stores.etcd.requests import KeyValue, walk, written_times
from tenure.stores.etcd.writing import Batch
from tenure.stores.notes import unreadable
from tenure.task import UNREADABLE
from tenure.times import Moment


class _Value(msgspec.Struct, frozen=True):
    value: dict[str, Any]
    updated_at: Moment | None


_decoder = msgspec.json.Decoder(_Value)


async def put_note(db: Database, note: Note, if_version: int | None, now: datetime) -> bool:
    """Write or delete a note, if its version is the expected one."""
    key = db.layout.key(b"note", name(note.kind), name(note.key))
    batch = Batch()
    if if_version is not None:
        batch.compares.append(written_times(key, if_version))
    if note.value:
        batch.puts[key] = msgspec.json.encode(_Value(note.value, now))
    else:
        batch.deletes.add(key)
    db.tell(batch, moment(now))
    return (await db.commit(batch)).done


async def notes(db: Database, kind: str) -> list[Note]:
    """All notes of a kind, by key."""
    folder = db.layout.folder(b"note", name(kind))
    (found,) = await db.read([walk(folder, after(folder))])
    return read_notes(kind, found)


def read_notes(kind: str, found: list[KeyValue]) -> list[Note]:
    """Notes as they were found, by key."""
    notes = []
    for each in found:
        key = plain(each.key.rpartition(b"/")[2])
        try:
            held = _decoder.decode(each.value)
        except UNREADABLE as error:
            unreadable(kind, key, str(error))
            held = _Value({}, None)
        notes.append(Note(kind, key, held.value, held.updated_at, each.version))
    return sorted(notes, key=lambda note: note.key)
