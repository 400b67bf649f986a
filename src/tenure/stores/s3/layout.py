"""Setting up a queue in a bucket, and trying whether its server keeps the conditions of writes."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec

from tenure.errors import StoreTooNew, StoreUnusable
from tenure.stores.s3.address import MOST_SHARDS
from tenure.stores.s3.bucket import Bucket
from tenure.stores.s3.names import LAYOUT
from tenure.stores.s3.segments import fresh_nonce
from tenure.task import FORMAT


class Layout(msgspec.Struct):
    """What everyone who uses a queue must agree on."""

    format: int
    nonce: str
    shards: Annotated[int, msgspec.Meta(ge=1, le=MOST_SHARDS)]
    tested_at: str
    """The address of the server that has passed the test of conditional writes."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Layout).decode


async def open_layout(bucket: Bucket) -> Layout:
    """Read what is there, or set it up if the address asks for that; try a server that was not tried before."""
    address = bucket.address
    endpoint = (await bucket.client.access.place()).endpoint
    if address.create:
        await _create_bucket(bucket)
    while True:
        found = await bucket.read(LAYOUT)
        if found is None:
            if not address.create:
                msg = f"{address.shown} holds no queue yet. Add ?create=true to its address to set one up there."
                raise StoreUnusable(msg)
            await test_conditions(bucket)
            layout = Layout(FORMAT, fresh_nonce(), address.shards or 1, endpoint)
            if await bucket.create(LAYOUT, _encode(layout), layout.nonce) is not None:
                return layout
            continue
        try:
            layout = _decode(found.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            msg = f"{address.shown}/{LAYOUT} cannot be read ({error}). It tells how the queue is laid out; put its last version back."
            raise StoreUnusable(msg) from None
        if layout.format > FORMAT:
            msg = f"{address.shown} was written in format {layout.format} by a newer Tenure; this one reads up to {FORMAT}. Upgrade Tenure."
            raise StoreTooNew(msg)
        if address.shards is not None and address.shards != layout.shards:
            msg = f"{address.shown} has {layout.shards} shards, not {address.shards}; that is decided when a queue is set up. Leave shards= out."
            raise StoreUnusable(msg)
        if layout.tested_at == endpoint:
            return layout
        await test_conditions(bucket)
        tested = Layout(layout.format, fresh_nonce(), layout.shards, endpoint)
        if await bucket.replace(LAYOUT, _encode(tested), tested.nonce, found.etag) is not None:
            return tested


async def _create_bucket(bucket: Bucket) -> None:
    asked = await bucket.ask("HEAD")
    if asked.status != 404:
        return
    made = await bucket.ask("PUT")
    if not made.ok and made.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
        msg = f"The bucket {bucket.address.bucket!r} could not be created ({made.code or made.status}). Create it yourself, or choose another name."
        raise StoreUnusable(msg)


async def test_conditions(bucket: Bucket) -> None:
    """Refuse a server on which two writers could both believe that they were first."""
    name, nonce = f"self-test/{secrets.token_hex(12)}.json", fresh_nonce()

    def body(text: str) -> bytes:
        return msgspec.json.encode({"nonce": nonce, "text": text})

    first = await bucket.create(name, body("first"), nonce)
    _require(bucket, first is not None, "a new object could not be created with If-None-Match: *")
    assert first is not None
    seen = [each.name for each in (await bucket.page("self-test/", name[:-1], 1)).objects]
    _require(bucket, seen == [name], "a listing did not show an object that had just been written")
    again = await bucket.create(name, body("again"), nonce)
    _require(bucket, again is None, "If-None-Match: * was ignored: an object was written over another")
    stale = await bucket.replace(name, body("stale"), nonce, f'"{"0" * 32}"')
    _require(bucket, stale is None, "If-Match was ignored: a version that was not there was replaced")
    second = await bucket.replace(name, body("second"), nonce, first)
    _require(bucket, second is not None, "If-Match with the right version was refused")
    assert second is not None
    _require(bucket, second != first, "two versions have the same ETag")
    await bucket.delete(name, first)
    found = await bucket.read(name)
    _require(bucket, found is not None, "If-Match on DELETE was ignored: a newer version was deleted")
    _require(
        bucket, found is not None and found.body == body("second"), "an object did not read back as it was written"
    )
    _require(bucket, await bucket.delete(name, second), "a delete of the right version was refused")
    _require(bucket, await bucket.read(name) is None, "a deleted object could still be read")


def _require(bucket: Bucket, holds: bool, failed: str) -> None:
    if not holds:
        msg = (
            f"The server of {bucket.address.shown} cannot hold a queue: {failed}. "
            "Workers would take tasks from each other. Use a server with conditional writes, like Amazon S3."
        )
        raise StoreUnusable(msg)
