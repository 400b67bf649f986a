"""The records of idempotency keys and slots, as objects."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tenure.errors import DamagedRecord
from tenure.idempotency import Reservation, read_reservation
from tenure.stores.s3.bucket import Bucket, Listed
from tenure.stores.s3.names import holds_tasks, reservation_name
from tenure.stores.s3.segments import fresh_nonce
from tenure.task import FORMAT

FOLDER = "idempotency/"


class HeldReservation(NamedTuple):
    """A record, the segment that it names, and the tag of its version."""

    reservation: Reservation
    segment: str | None
    etag: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Reservations:
    """The records under `idempotency/`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def create(self, reservation: Reservation, segment: str | None) -> HeldReservation | None:
        """Write the record of a key that has none; None when it has."""
        nonce = fresh_nonce()
        etag = await self._bucket.create(reservation_name(reservation), _body(reservation, segment, nonce), nonce)
        return None if etag is None else HeldReservation(reservation, segment, etag)

    async def replace(
        self, held: HeldReservation, reservation: Reservation, segment: str | None
    ) -> HeldReservation | None:
        """Write over this very version; None when another was faster."""
        name, nonce = reservation_name(reservation), fresh_nonce()
        etag = await self._bucket.replace(name, _body(reservation, segment, nonce), nonce, held.etag)
        return None if etag is None else HeldReservation(reservation, segment, etag)

    async def read(self, reservation: Reservation) -> HeldReservation | None:
        return await self._read(reservation_name(reservation))

    async def read_listed(self, listed: Listed) -> HeldReservation | None:
        return await self._read(listed.name)

    async def _read(self, name: str) -> HeldReservation | None:
        found = await self._bucket.read(name)
        if found is None:
            return None
        try:
            fields = _decode(found.body)
            own = {field: fields.pop(field, msgspec.Raw(b"null")) for field in ("task_key", "format", "nonce")}
            segment = msgspec.json.decode(own["task_key"], type=str | None)
            newer = msgspec.json.decode(own["format"], type=int) > FORMAT
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedRecord(name, str(error), of="key") from None
        if newer or (segment and not holds_tasks(segment)):
            raise DamagedRecord(name, "it is of a newer Tenure, or leads nowhere", of="key")
        held = HeldReservation(read_reservation(_encode(fields), name), segment, found.etag)
        if reservation_name(held.reservation) != name:
            raise DamagedRecord(name, "it is of another key", of="key")
        return held

    async def delete(self, held: HeldReservation) -> bool:
        return await self._bucket.delete(reservation_name(held.reservation), held.etag)


def _body(reservation: Reservation, segment: str | None, nonce: str) -> bytes:
    """The record, with what only this store needs: the segment in which its task is written."""
    return _encode({**_decode(_encode(reservation)), "task_key": segment, "format": FORMAT, "nonce": nonce})
