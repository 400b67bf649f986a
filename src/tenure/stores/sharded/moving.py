"""Everything out of several shards, and into them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenure.stores.base import Page, Piece
from tenure.stores.cursors import RESERVATIONS, STONES, TASKS, not_of_a_dump
from tenure.stores.sharded import pointers
from tenure.stores.sharded.merging import Cursor, Listing, Mark
from tenure.stores.sharded.placing import Places
from tenure.stores.sharded.shard import Shard
from tenure.stores.sharded.together import by_shard, grouped
from tenure.task import Task


class Dumped(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a dump has come: the kind of record, and within it the shard and its own cursor."""

    kind: str
    tasks: Cursor
    shard: int = 0
    cursor: str | None = None


class Dump:
    """One piece of everything: tasks in one order over all shards, then stones, then reservations, shard by shard."""

    def __init__(self, shards: Sequence[Shard], places: Places, limit: int) -> None:
        self.shards, self.places, self.limit = shards, places, limit
        self.damaged: list[str] = []

    async def piece(self, text: str | None) -> Piece:
        """The next piece. All shards have to be there: what is left out would be lost."""
        place = _read_place(text, len(self.shards))
        if place.kind == TASKS:
            return await self._tasks(place.tasks)
        return await self._rest(place)

    async def _tasks(self, cursor: Cursor) -> Piece:
        listing = Listing(self._fetch, by_end=False, oldest=True, limit=self.limit)
        tasks, following = await listing.step(self.shards, cursor)
        place = Dumped(TASKS, following)
        if following.done:
            place = self._begin(STONES, following, 0)
        return Piece(tasks=tasks, damaged=self.damaged, cursor=_encode(place))

    async def _fetch(self, shard: Shard, cursor: str | None) -> Page:
        piece = await shard.dump(cursor, self.limit)
        self.damaged += piece.damaged
        over = bool(piece.stones or piece.reservations)
        return Page(piece.tasks, None if over else piece.cursor)

    async def _rest(self, place: Dumped) -> Piece:
        shard = self.shards[place.shard]
        piece = await shard.dump(place.cursor, self.limit)
        over = place.kind == STONES and bool(piece.reservations)
        stones = [stone for stone in piece.stones if place.kind == STONES and not pointers.is_pointer(stone)]
        # What a shard kept before there were more of them may still be there, outdated.
        reservations = [
            record
            for record in piece.reservations
            if place.kind == RESERVATIONS and self.places.of_text(record.identity) == place.shard
        ]
        following: Dumped | None
        if piece.cursor is not None and not over:
            following = Dumped(place.kind, place.tasks, place.shard, piece.cursor)
        elif place.shard + 1 < len(self.shards):
            following = self._begin(place.kind, place.tasks, place.shard + 1)
        else:
            following = self._begin(RESERVATIONS, place.tasks, 0) if place.kind == STONES else None
        return Piece(stones=stones, reservations=reservations, cursor=None if following is None else _encode(following))

    def _begin(self, kind: str, tasks: Cursor, shard: int) -> Dumped:
        """Other records stand behind a shard's last task."""
        return Dumped(kind, tasks, shard, tasks.shards[shard].begin)


async def restore(shards: Sequence[Shard], places: Places, piece: Piece) -> Piece:
    """Put each record where it is kept, with pointers where it is asked for elsewhere."""
    tasks = await _restore(shards, places, piece.tasks, TASKS)
    stones = await _restore(shards, places, piece.stones, STONES)
    records = grouped(piece.reservations, lambda record: places.of_text(record.identity))
    told = await by_shard(
        shards, records, lambda shard, group: _put(shard, Piece(reservations=group))
    )  # fmt: skip
    leading = {
        number: [pointers.from_key(record) for record in group if places.of_id(record.task_id) != number]
        for number, group in records.items()
    }
    await by_shard(shards, leading, lambda shard, group: _put(shard, Piece(stones=group)))
    there = {record.identity: record for answer in told.values() for record in answer.reservations}
    return Piece(
        tasks=tasks,
        stones=stones,
        reservations=[there[record.identity] for record in piece.reservations if record.identity in there],
    )


async def _restore(shards: Sequence[Shard], places: Places, records: list[Task], kind: str) -> list[Task]:
    groups = grouped(records, places.of_task)
    told = await by_shard(
        shards, groups, lambda shard, group: _put(shard, Piece(group) if kind == TASKS else Piece(stones=group))
    )
    apart = grouped(
        [
            record
            for record in records
            if record.remember_until is not None and places.of_id(record.id) != places.of_task(record)
        ],
        lambda record: places.of_id(record.id),
    )
    leading = {number: [pointers.from_id(record) for record in group] for number, group in apart.items()}
    await by_shard(shards, leading, lambda shard, group: _put(shard, Piece(stones=group)))
    there = {found.id: found for answer in told.values() for found in getattr(answer, kind)}
    return [there[record.id] for record in records if record.id in there]


async def _put(shard: Shard, piece: Piece) -> Piece:
    if not (piece.tasks or piece.stones or piece.reservations):
        return Piece()
    return await shard.restore(piece, await shard.now())


def _encode(place: Dumped) -> str:
    return msgspec.json.encode(place).decode()


def _read_place(text: str | None, count: int) -> Dumped:
    if text is None:
        return Dumped(TASKS, Cursor([Mark()] * count))
    try:
        place = msgspec.json.decode(text, type=Dumped)
    except (msgspec.MsgspecError, UnicodeError):
        place = None
    if place is None or len(place.tasks.shards) != count or not 0 <= place.shard < count:
        raise not_of_a_dump(text)
    return place
