"""Each shard keeps a note of its number and of how many there are, so that a wrong address is refused at once."""

from __future__ import annotations

from typing import NamedTuple

from tenure.errors import StoreUnusable
from tenure.stores.base import Note, Store

SHARD, KEY = "shard", "seat"


class Seat(NamedTuple):
    """One shard's number, from 0, and how many there are."""

    number: int
    of: int


async def seat_of(store: Store) -> Seat | None:
    """What a store says of itself."""
    for note in await store.notes(SHARD):
        if note.key == KEY:
            return Seat(note.value["number"], note.value["of"])
    return None


async def give_seat(store: Store, seat: Seat) -> None:
    """Let a store know which shard it is."""
    await store.put_note(Note(SHARD, KEY, seat._asdict()))


def check_seat(name: str, found: Seat | None, expected: Seat) -> None:
    """Refuse a store that is another shard than its place in the address says."""
    if found is None:
        msg = (
            f"{name} is empty, but the other shards say that it has been in use. Look whether its disk or database is "
            "the right one. If it is lost for good, copy what is left to new stores with `tenure copy`."
        )
        raise StoreUnusable(msg)
    if found.of != expected.of:
        msg = (
            f"{name} is one of {found.of} shards, and this address names {expected.of}. To change their number, stop "
            "all producers and run: tenure copy 'THE OLD ADDRESSES' 'THE OLD AND THE NEW ADDRESSES'"
        )
        raise StoreUnusable(msg)
    if found.number != expected.number:
        msg = (
            f"{name} is shard {found.number} of this queue. Give the addresses in the order in which the queue was set "
            "up: their order decides where tasks are kept."
        )
        raise StoreUnusable(msg)
