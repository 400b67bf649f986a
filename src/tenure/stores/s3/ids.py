"""What is known of ids that do not lead to their task by themselves: chosen ones, and pruned tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tenure.errors import DamagedRecord
from tenure.payload import NULL
from tenure.stores.base import remembered
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.names import holds_tasks, id_name
from tenure.stores.s3.segments import fresh_nonce
from tenure.stores.s3.shelves import in_parallel
from tenure.task import FORMAT, Task, decode, encode


class IdRecord(msgspec.Struct, omit_defaults=True):
    """The segment in which the task was, or is about to be, written; or the stone of a pruned one."""

    format: int
    nonce: str
    id: str
    segment: str | None = None
    stone: msgspec.Raw = NULL


class Held(NamedTuple):
    """A record and the tag of its version."""

    record: IdRecord
    etag: str

    @property
    def stone(self) -> Task | None:
        """What is known of a pruned task."""
        return None if self.record.stone == NULL else decode(self.record.stone, self.record.id)


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(IdRecord)


def _decode(body: bytes, name: str) -> IdRecord:
    try:
        record = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRecord(name, str(error), of="id") from None
    if record.format > FORMAT or id_name(record.id) != name or (record.segment and not holds_tasks(record.segment)):
        why = "it is of another id or of a newer Tenure, or leads nowhere"
        raise DamagedRecord(name, why, of="id")
    return record


class Ids:
    """The records under `ids/`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._seen: set[str] = set()

    def has(self, task_id: str) -> bool:
        """Whether the last look found a record."""
        return task_id in self._seen

    async def read(self, task_id: str) -> Held | None:
        found = await self._bucket.read(id_name(task_id))
        if found is None:
            self._seen.discard(task_id)
            return None
        self._seen.add(task_id)
        return Held(_decode(found.body, id_name(task_id)), found.etag)

    async def segments(self, ids: Sequence[str]) -> dict[str, str]:
        """The segments that the records of these ids name, as far as they can be read."""

        async def segment(task_id: str) -> str | None:
            try:
                held = await self.read(task_id)
            except DamagedRecord:
                return None
            return held.record.segment if held is not None else None

        found = dict(zip(ids, await in_parallel(segment, ids), strict=True))
        return {task_id: name for task_id, name in found.items() if name}

    async def stone(self, task_id: str, now: datetime) -> Task | None:
        """What is still known of a pruned task."""
        held = await self.read(task_id)
        stone = held.stone if held else None
        return stone if stone is not None and remembered(stone, now) is not None else None

    async def reserve(self, task_id: str, segment: str) -> bool:
        """Name the segment of a new id; False when the id has a record already."""
        nonce = fresh_nonce()
        body = _encode(IdRecord(FORMAT, nonce, task_id, segment=segment))
        return await self._bucket.create(id_name(task_id), body, nonce) is not None

    async def point(self, held: Held, segment: str) -> bool:
        """Let a record name another segment, if it is still this one."""
        nonce = fresh_nonce()
        body = _encode(IdRecord(FORMAT, nonce, held.record.id, segment=segment))
        return await self._bucket.replace(id_name(held.record.id), body, nonce, held.etag) is not None

    async def lay(self, stone: Task) -> bool:
        """Leave a stone for an id that has no record; False when it has one."""
        nonce = fresh_nonce()
        body = _encode(IdRecord(FORMAT, nonce, stone.id, stone=msgspec.Raw(encode(stone))))
        return await self._bucket.create(id_name(stone.id), body, nonce) is not None

    async def bury(self, stone: Task) -> None:
        """Leave a stone, over whatever the record says."""
        name = id_name(stone.id)
        while True:
            found = await self._bucket.read(name)
            nonce = fresh_nonce()
            body = _encode(IdRecord(FORMAT, nonce, stone.id, stone=msgspec.Raw(encode(stone))))
            if found is None:
                done = await self._bucket.create(name, body, nonce)
            else:
                done = await self._bucket.replace(name, body, nonce, found.etag)
            if done is not None:
                return

    async def drop(self, task_id: str) -> None:
        """Delete the record of an id, whatever it says."""
        self._seen.discard(task_id)
        if (found := await self._bucket.read(id_name(task_id))) is not None:
            await self._bucket.delete(id_name(task_id), found.etag)

    async def forget(self, held: Held) -> bool:
        self._seen.discard(held.record.id)
        return await self._bucket.delete(id_name(held.record.id), held.etag)

    async def read_listed(self, listed: Listed) -> Held | None:
        found = await self._bucket.read(listed.name)
        return None if found is None else Held(_decode(found.body, listed.name), found.etag)
