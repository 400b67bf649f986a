"""The records of idempotency keys and slots, as objects."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tenure.idempotency import Reservation
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.names import reservation_name
from tenure.stores.s3.segments import fresh_nonce
from tenure.task import FORMAT

replace = msgspec.structs.replace
FOLDER = "idempotency/"


class _Record(Reservation, frozen=True, omit_defaults=True):
    """The record with what only this store needs: the segment in which its task is written."""

    task_key: str | None = None
    format: int = FORMAT
    nonce: str = ""


class HeldReservation(NamedTuple):
    """A record, the segment that it names, and the tag of its version."""

    reservation: Reservation
    segment: str | None
    etag: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Record).decode


class Reservations:
    """The records under `idempotency/`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def create(self, reservation: Reservation, segment: str | None) -> HeldReservation | None:
        """Write the record of a key that has none; None when it has."""
        record = _record(reservation, segment)
        etag = await self._bucket.create(reservation_name(reservation), _encode(record), record.nonce)
        return None if etag is None else HeldReservation(reservation, segment, etag)

    async def replace(
        self, held: HeldReservation, reservation: Reservation, segment: str | None
    ) -> HeldReservation | None:
        """Write over this very version; None when another was faster."""
        record = _record(reservation, segment)
        name = reservation_name(reservation)
        etag = await self._bucket.replace(name, _encode(record), record.nonce, held.etag)
        return None if etag is None else HeldReservation(reservation, segment, etag)

    async def read(self, reservation: Reservation) -> HeldReservation | None:
        return await self._read(reservation_name(reservation))

    async def read_listed(self, listed: Listed) -> HeldReservation | None:
        return await self._read(listed.name)

    async def _read(self, name: str) -> HeldReservation | None:
        found = await self._bucket.read(name)
        if found is None:
            return None
        record = _decode(found.body)
        fields = {field: getattr(record, field) for field in Reservation.__struct_fields__}
        return HeldReservation(Reservation(**fields), record.task_key, found.etag)

    async def delete(self, held: HeldReservation) -> bool:
        return await self._bucket.delete(reservation_name(held.reservation), held.etag)


def _record(reservation: Reservation, segment: str | None) -> _Record:
    fields = {field: getattr(reservation, field) for field in Reservation.__struct_fields__}
    return _Record(**fields, task_key=segment, nonce=fresh_nonce())
