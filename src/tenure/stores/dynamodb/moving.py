"""Everything out of one table and into another, exactly as it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain

from tenure.errors import ConcurrentChange, DamagedRecord
from tenure.idempotency import Reservation, read_reservation
from tenure.stores.base import Piece, remembered
from tenure.stores.cursors import STONES, TASKS, dump_cursor, read_dump_cursor
from tenure.stores.dynamodb.forgetting import KEY, STONE, stone_item
from tenure.stores.dynamodb.inserting import free, reservation_item
from tenure.stores.dynamodb.items import attributes, is_stone, load, places, present
from tenure.stores.dynamodb.keys import ALL, KEYS_OF, RANKS, TIME
from tenure.stores.dynamodb.ordering import Head, add_turn, block, head_of, move_head
from tenure.stores.dynamodb.table import TRIES, Action, token
from tenure.stores.dynamodb.together import Entry, Parts, all_done, groups, write_together
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Item, equal
from tenure.task import OPEN, Task, TaskStatus


async def dump(parts: Parts, cursor: str | None, limit: int) -> Piece:
    """One page of tasks, stones or records of keys; the cursor names which, and the last entry."""
    what, last = read_dump_cursor(cursor, "")
    keys = parts.keys
    if what == TASKS:
        index, pks = ALL, [*keys.every(keys.listed, "open"), *keys.every(keys.listed, "ended")]
    else:
        index, pks = TIME, keys.every(keys.outdated, STONE if what == STONES else KEY)
    entries: list[Item] = []
    async for entry in merged(parts.table, index, pks, page=limit, above=last or None):
        entries.append(entry)
        if len(entries) == limit:
            break
    sort = KEYS_OF[index][1]
    more = len(entries) == limit
    piece = Piece([], [], [], [], dump_cursor(what, entries[-1][sort] if more else None, more=more))
    places_of = [(entry[parts.table.pk], entry[parts.table.sk]) for entry in entries]
    found = await parts.table.get(places_of) if places_of else {}
    for place in places_of:
        if place in found:
            _take(parts, piece, found[place])
    return piece


def _take(parts: Parts, piece: Piece, item: Item) -> None:
    task_id = parts.keys.task_id(item[parts.table.pk])
    try:
        if "job_type" not in item:
            piece.reservations.append(read_reservation(item["record"], item[parts.table.pk]))
        elif is_stone(item):
            piece.stones.append(load(item, task_id))
        else:
            piece.tasks.append(load(item, task_id))
    except DamagedRecord as damage:
        piece.damaged.append(damage.task_id)


async def restore(parts: Parts, piece: Piece, now: datetime) -> Piece:
    """Put in what is absent, in the order of the piece; answers with what stands there already."""
    there = Piece([], [], [])
    await parts.lanes.ensure((task for task in piece.tasks if task.status is TaskStatus.Pending), now)
    ranked = [(task, RANKS.next(task.id, now, chosen=True)) for task in piece.tasks]
    ordered = [pair for pair in ranked if pair[0].ordering_key is not None and pair[0].status in OPEN]
    plain = [pair for pair in ranked if pair[0].ordering_key is None or pair[0].status not in OPEN]
    entries = [_entry(parts, task, rank, now) for task, rank in plain]
    stones = [
        Entry(
            [parts.table.put(parts.keys.task(stone.id), stone_item(parts, stone), free(parts, now))], None, None, stone
        )
        for stone in piece.stones
    ]
    await all_done(write_together(parts, group) for group in groups(chain(entries, stones)))
    for task, rank in ordered:
        entries.append(await _restore_ordered(parts, task, rank, now))
    known = {entry.mark.id: _known(entry, now) for entry in chain(entries, stones) if entry.failed}
    there.tasks.extend(known[task.id] or task for task in piece.tasks if task.id in known)
    there.stones.extend(known[stone.id] or stone for stone in piece.stones if stone.id in known)
    for found in await all_done([_restore_reservation(parts, record, now) for record in piece.reservations]):
        there.reservations.extend(found)
    return there


def _entry(
    parts: Parts, task: Task, rank: str, now: datetime, more: Sequence[Action] = (), *, blocked: bool = False
) -> Entry:
    item = present(attributes(task) | places(parts.keys, task, rank, blocked=blocked))
    action = parts.table.put(parts.keys.task(task.id), item, free(parts, now))
    return Entry([action, *more], None, task, task)


async def _restore_ordered(parts: Parts, task: Task, rank: str, now: datetime) -> Entry:
    """An open task with an ordering key: one that runs has the turn, others wait for what is there."""
    assert task.ordering_key is not None
    for attempt in range(TRIES):
        if attempt:
            await parts.table.pause(attempt)
        head, _ = await head_of(parts, task.ordering_key)
        goes_first = head.task_id is None or task.status is TaskStatus.Running
        more: list[Action] = [add_turn(parts, task, rank)]
        if goes_first and head.task_id is not None:
            more += await block(parts, head.task_id)
        new = Head(task.id if goes_first else head.task_id, max(head.last, rank), token())
        more.append(move_head(parts, task.ordering_key, head, new))
        entry = _entry(parts, task, rank, now, more, blocked=not goes_first)
        await write_together(parts, [entry])
        if entry.failed is None or entry.failed[0].code != "None":
            return entry
    raise ConcurrentChange(task.id)


def _known(entry: Entry, now: datetime) -> Task | None:
    assert entry.failed is not None
    item = entry.failed[0].item
    if item is None:
        return None
    task = load(item, entry.mark.id)
    return task if not is_stone(item) or remembered(task, now) is not None else None


async def _restore_reservation(parts: Parts, reservation: Reservation, now: datetime) -> list[Reservation]:
    """Write a record unless a valid one is there; answers with that."""
    key, condition = parts.keys.reservation(reservation), None
    for _ in range(TRIES):
        action = parts.table.put(key, reservation_item(parts, reservation), condition)
        try:
            await parts.table.write(action)
        except ConditionFailed as failed:
            if failed.item is None:
                condition = None
                continue
            found = read_reservation(failed.item["record"], reservation.identity)
            if failed.repeated and found == reservation:
                return []
            if not found.is_stale_at(now):
                return [found]
            condition = equal(record=failed.item["record"])
        else:
            return []
    raise ConcurrentChange(reservation.task_id)
