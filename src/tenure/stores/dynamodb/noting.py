"""Notes beside the tasks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tenure.stores.base import Note
from tenure.stores.dynamodb.keys import Keys
from tenure.stores.dynamodb.table import Table, token
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.wire import equal
from tenure.stores.notes import value_of
from tenure.times import from_text, to_text


async def put_note(table: Table, keys: Keys, note: Note, if_version: int | None, now: datetime) -> bool:
    """Write or delete a note, if its version is the expected one."""
    condition = None if if_version is None else equal(version=if_version or None)
    key = keys.note(note.kind, note.key)
    try:
        if note.value:
            mine = token()
            value = {
                "note": msgspec.json.encode(note.value).decode(), "name": note.key, "updated_at": to_text(now), "write": mine
            }  # fmt: skip
            await table.write(table.update(key, value, condition=condition, add={"version": 1}), mine=mine)
        else:
            await table.write(table.delete(key, condition))
    except ConditionFailed as failed:
        # A deletion whose answer was lost finds nothing when it is sent again.
        return not note.value and failed.repeated and failed.item is None
    return True


async def notes(table: Table, keys: Keys, kind: str) -> list[Note]:
    """All notes of a kind, by key."""
    found = [
        Note(
            kind,
            item["name"],
            value_of(kind, item["name"], item["note"]),
            from_text(item["updated_at"]),
            item["version"],
        )
        for item in await table.partition(keys.notes(kind))
    ]
    return sorted(found, key=lambda note: note.key)
