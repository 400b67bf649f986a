"""Notes beside the tasks, one object each; pauses stand where every claim sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tenure.stores.base import Note
from tenure.stores.s3.bucket import Bucket, Listed, Object
from tenure.stores.s3.names import PAUSES, note_name, notes_folder, tasks_folder
from tenure.stores.s3.segments import fresh_nonce
from tenure.stores.s3.shelves import in_parallel
from tenure.task import FORMAT, UNREADABLE

replace = msgspec.structs.replace


class _NoteBody(msgspec.Struct):
    format: int
    nonce: str
    note: Note


class _PausesBody(msgspec.Struct):
    """All pauses; the number grows with each change, so that a copy never overtakes a newer one."""

    format: int
    nonce: str
    number: int
    notes: list[Note]


_encode = msgspec.json.Encoder().encode
_decode_note = msgspec.json.Decoder(_NoteBody).decode
_decode_pauses = msgspec.json.Decoder(_PausesBody).decode
log = logging.getLogger("tenure")


class Notes:
    """All notes but the pauses."""

    def __init__(self, bucket: Bucket, clock: Callable[[], datetime]) -> None:
        self._bucket, self._clock = bucket, clock
        self._known: dict[str, tuple[str, Note | None]] = {}
        """What was read last: the tag of the version, and the note unless nobody can read it."""

    async def put(self, note: Note, if_version: int | None) -> bool:
        name = note_name(note.kind, note.key)
        # What this process wrote last is probably still there: a sign of life is one request.
        found = self._known.get(name) if if_version is None else await self._read(name)
        while True:
            after = _next(found[1] if found else None, note, if_version, self._clock())
            if after is None:
                return False
            if await self._write(name, after, found[0] if found else None):
                return True
            found = await self._read(name)

    async def _write(self, name: str, note: Note, etag: str | None) -> bool:
        nonce = fresh_nonce()
        body = _encode(_NoteBody(FORMAT, nonce, note))
        if not note.value:
            self._known.pop(name, None)
            found = await self._read(name) if etag is None else (etag, note)
            return found is None or await self._bucket.delete(name, found[0])
        if etag is None:
            written = await self._bucket.create(name, body, nonce)
        else:
            written = await self._bucket.replace(name, body, nonce, etag)
        if written is not None:
            self._known[name] = written, note
        return written is not None

    async def of(self, kind: str) -> list[Note]:
        """All notes of a kind; only what has changed is read."""
        listed = await self._bucket.names(notes_folder(kind))
        await in_parallel(
            self._read, [each.name for each in listed if self._known.get(each.name, ("",))[0] != each.etag]
        )
        found = (self._known[each.name][1] for each in listed if each.name in self._known)
        return sorted((note for note in found if note is not None and note.kind == kind), key=_key)

    async def _read(self, name: str) -> tuple[str, Note | None] | None:
        found = await self._bucket.read(name)
        if found is None:
            self._known.pop(name, None)
            return None
        try:
            note = _decode_note(found.body).note
        except UNREADABLE as error:
            # It says what can be said again: the next one is written over it.
            log.error("The note %s cannot be read (%s) and counts for nothing.", name, error)
            note = None
        self._known[name] = found.etag, note
        return self._known[name]


class Pauses:
    """The notes of paused queues: a copy in every shard, so that the listing of a claim tells when they change."""

    def __init__(self, bucket: Bucket, shards: Callable[[], int], clock: Callable[[], datetime]) -> None:
        self._bucket, self._shards, self._clock = bucket, shards, clock
        self._seen: dict[int, tuple[str, list[Note]]] = {}

    async def put(self, note: Note, if_version: int | None) -> bool:
        """The first shard decides; the others follow before this returns."""
        while True:
            found = await self._bucket.read(_name(0))
            old = _read_pauses(found, _name(0)) or await self._copied()
            before = next((each for each in old.notes if each.key == note.key), None)
            after = _next(before, note, if_version, self._clock())
            if after is None:
                return False
            rest = [each for each in old.notes if each.key != note.key]
            notes = sorted([*rest, after] if note.value else rest, key=_key)
            new = _PausesBody(FORMAT, fresh_nonce(), old.number + 1, notes)
            if await self._write(0, new, found.etag if found else None):
                await asyncio.gather(*(self._copy(shard, new) for shard in range(1, self._shards())))
                return True

    async def _copied(self) -> _PausesBody:
        """The newest copy in the other shards, for when the first is not there or cannot be read."""
        names = [_name(shard) for shard in range(1, self._shards())]
        copies = [_read_pauses(await self._bucket.read(name), name) for name in names]
        nothing = _PausesBody(FORMAT, "", 0, [])
        return max((copy for copy in copies if copy is not None), key=lambda copy: copy.number, default=nothing)

    async def _copy(self, shard: int, new: _PausesBody) -> None:
        while True:
            found = await self._bucket.read(_name(shard))
            there = _read_pauses(found, _name(shard))
            if there is not None and there.number >= new.number:
                return
            if await self._write(shard, new, found.etag if found else None):
                return

    async def _write(self, shard: int, new: _PausesBody, etag: str | None) -> bool:
        new = _PausesBody(FORMAT, fresh_nonce(), new.number, new.notes)
        if etag is None:
            return await self._bucket.create(_name(shard), _encode(new), new.nonce) is not None
        return await self._bucket.replace(_name(shard), _encode(new), new.nonce, etag) is not None

    async def all(self) -> list[Note]:
        found = _read_pauses(await self._bucket.read(_name(0)), _name(0))
        return found.notes if found else []

    async def seen_in(self, listed: Sequence[Listed], shard: int) -> list[Note]:
        """The pauses, as the listing of a shard shows them."""
        shown = next((each for each in listed[:1] if each.name == _name(shard)), None)
        if shown is None:
            return []
        known = self._seen.get(shard)
        if known is None or known[0] != shown.etag:
            found = await self._bucket.read(shown.name)
            pauses = _read_pauses(found, shown.name)
            known = found.etag if found else shown.etag, pauses.notes if pauses else []
            self._seen[shard] = known
        return known[1]


def _read_pauses(found: Object | None, name: str) -> _PausesBody | None:
    """The pauses in a copy; None when there is none, or nobody can read it: then nothing is paused."""
    try:
        return None if found is None else _decode_pauses(found.body)
    except UNREADABLE as error:
        log.error("The pauses in %s cannot be read (%s): nothing counts as paused. Pause again.", name, error)
        return None


def _next(before: Note | None, note: Note, if_version: int | None, now: datetime) -> Note | None:
    version = before.version if before else 0
    if if_version is not None and if_version != version:
        return None
    return replace(note, version=version + 1, updated_at=now)


def _name(shard: int) -> str:
    return tasks_folder(shard) + PAUSES


def _key(note: Note) -> str:
    return note.key
