"""Opening several stores as one queue: the first time they are numbered, and from then on each must be in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tenure.errors import StoreUnavailable, StoreUnusable
from tenure.stores.options import without_password
from tenure.stores.sharded.seats import Seat, check_seat, give_seat, seat_of
from tenure.stores.sharded.shard import Shard


async def take_seats(shards: Sequence[Shard]) -> None:
    """Open what is there. A shard that is away is opened, and looked at, when it is back."""
    count = len(shards)
    found = await _enter(shards)
    for shard in shards:
        shard.expected = Seat(shard.number, count)
    seated = {number: seat for number, seat in found.items() if seat is not None}
    for number, seat in seated.items():
        check_seat(shards[number].name, seat, Seat(number, count))
    new = [shards[number] for number, seat in found.items() if seat is None]
    if new:
        await _set_up(shards, new, [shards[number] for number in seated], found)
    for number in found:
        shards[number].take_seat(Seat(number, count))


async def take_new_seats(shards: Sequence[Shard], before: int) -> None:
    """Open a queue of `before` shards as one of more; the old ones keep their seats until everything has moved."""
    count = len(shards)
    found = await _enter(shards)
    if len(found) < count:
        away = next(shard for shard in shards if shard.number not in found)
        msg = f"To change the number of shards, all of them must be there. {away.name}: {away.health.away}"
        raise StoreUnavailable(msg)
    for shard in shards:
        seat, number = found[shard.number], shard.number
        if number < before and (seat is not None or before > 1):
            check_seat(shard.name, seat, Seat(number, before if seat is None or seat.of != count else count))
        elif number >= before and seat is None:
            await _refuse_tasks(shard, "Use an empty store as a new shard.")
            await give_seat(shard.store, Seat(number, count))
        elif number >= before:
            check_seat(shard.name, seat, Seat(number, count))
        shard.take_seat(Seat(number, count))


async def settle(shards: Sequence[Shard]) -> None:
    """Everything has moved: from now on the old number of shards is refused."""
    for shard in shards:
        await give_seat(shard.store, Seat(shard.number, len(shards)))


async def _enter(shards: Sequence[Shard]) -> dict[int, Seat | None]:
    answers = await asyncio.gather(*(shard.enter() for shard in shards), return_exceptions=True)
    found: dict[int, Seat | None] = {}
    away: StoreUnavailable | None = None
    for shard, answer in zip(shards, answers, strict=True):
        if isinstance(answer, StoreUnavailable):
            away = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[shard.number] = answer
    if not found and away is not None:
        raise away
    return found


async def _set_up(
    shards: Sequence[Shard], new: list[Shard], seated: list[Shard], found: dict[int, Seat | None]
) -> None:
    """Number the shards. One that others have worked with before must not be empty all of a sudden."""
    if seated and any([await shard.store.count() for shard in seated]):
        for shard in new:
            check_seat(shard.name, await seat_of(shard.store), Seat(shard.number, len(shards)))
        return
    if not seated and len(found) < len(shards):
        away = next(shard for shard in shards if shard.number not in found)
        msg = f"The first time, all shards must be there. {away.name}: {away.health.away}"
        raise StoreUnavailable(msg)
    for shard in new:
        if await seat_of(shard.store) is None:
            await _refuse_tasks(
                shard, f"Spread them with: tenure copy '{without_password(shard.url)}' 'ALL THE ADDRESSES'"
            )
            await give_seat(shard.store, Seat(shard.number, len(shards)))


async def _refuse_tasks(shard: Shard, advice: str) -> None:
    if await shard.store.count():
        msg = f"{shard.name} holds the tasks of a queue that is not sharded. {advice}"
        raise StoreUnusable(msg)
