"""Notes beside the tasks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tenure.stores.base import Note
from tenure.stores.notes import value_of
from tenure.stores.postgres.records import Database, Statements, column, plain


async def put_note(
    db: Database, statements: Statements, note: Note, if_version: int | None, now: datetime | None
) -> bool:
    """Write or delete a note, if its version is the expected one."""
    kind, key = column(note.kind), column(note.key)
    if note.value:
        value = msgspec.json.encode(note.value)
        ((written, _),) = await db.fetch(statements("put_note"), kind, key, if_version, now, value)
        return bool(written)
    ((gone, _),) = await db.fetch(statements("delete_note"), kind, key, if_version)
    if gone or if_version is None:
        return True
    return if_version == 0 and not await db.fetch(statements("note_version"), kind, key)


async def notes(db: Database, statements: Statements, kind: str) -> list[Note]:
    """All notes of a kind, by key."""
    found = [
        Note(kind, plain(key), value_of(kind, plain(key), value), updated_at, version)
        for key, value, updated_at, version in await db.fetch(statements("notes"), column(kind))
    ]
    return sorted(found, key=lambda note: note.key)
