"""Forgetting what was kept long enough, and the stones that are left for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from tenure.errors import DamagedRecord
from tenure.stores.base import remembered
from tenure.stores.dynamodb.changing import read
from tenure.stores.dynamodb.items import attributes, log, present
from tenure.stores.dynamodb.keys import LAST, TIME
from tenure.stores.dynamodb.table import Action
from tenure.stores.dynamodb.together import Entry, Parts, all_done, groups, write_together
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Item, equal
from tenure.task import Task, TaskStatus
from tenure.times import FOREVER, to_micros, to_text

KEY, STONE = "key", "stone"


async def prune(parts: Parts, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
    """Forget ended tasks, records of keys, and stones, each up to the limit, by the index that has them in order."""
    places = await _ended(parts, ended_before, limit)
    done = await forget(parts, await _tasks(parts, places), now)
    gone = [await _drop_outdated(parts, what, now, limit) for what in (KEY, STONE)]
    await parts.lanes.strike_off(now)
    return sum(done) + sum(gone)


async def _ended(parts: Parts, ended_before: Mapping[TaskStatus, datetime], limit: int) -> list[Item]:
    found: list[Item] = []
    for status, moment in ended_before.items():
        entries = merged(
            parts.table, TIME, parts.keys.every(parts.keys.ended, status.value),
            up_to=f"{to_text(moment)}#{LAST}", page=limit,
        )  # fmt: skip
        found += await _first(entries, limit)
    return list(islice(sorted(found, key=lambda entry: entry["time_sk"]), limit))


async def _tasks(parts: Parts, entries: list[Item]) -> list[Task]:
    ids = [parts.keys.task_id(entry[parts.table.pk]) for entry in entries]
    try:
        return list((await read(parts, ids)).values()) if ids else []
    except DamagedRecord:
        tasks: list[Task] = []
        for task_id in ids:
            try:
                tasks += (await read(parts, [task_id])).values()
            except DamagedRecord as damage:
                log.warning("%s", damage)
        return tasks


async def forget(parts: Parts, tasks: Sequence[Task], now: datetime) -> list[bool]:
    """Delete these versions of ended tasks."""
    entries = [
        Entry([_forgotten(parts, task, now)], task, None) for task in tasks if task.status.ended
    ]  # fmt: skip
    await all_done(write_together(parts, group) for group in groups(entries))
    gone = {entry.before.id for entry in entries if entry.before is not None and entry.failed is None}
    return [task.id in gone for task in tasks]


def _forgotten(parts: Parts, task: Task, now: datetime) -> Action:
    key, condition = parts.keys.task(task.id), equal(version=task.version, status=task.status.value)
    stone = remembered(task, now)
    if stone is None:
        return parts.table.delete(key, condition)
    return parts.table.put(key, stone_item(parts, stone), condition)


def stone_item(parts: Parts, stone: Task) -> Item:
    """What a task leaves at its place."""
    end = stone.remember_until or FOREVER
    item: dict[str, Any] = attributes(stone) | {
        "stone": to_text(end),
        "time_pk": parts.keys.outdated(STONE, parts.keys.shard(stone.id)),
        "time_sk": f"{to_text(end)}#{stone.created_at.timestamp():.6f}",
        "ttl": to_micros(end) // 1_000_000 + 1 if end < FOREVER else None,
    }
    return present(item)


async def _drop_outdated(parts: Parts, what: str, now: datetime, limit: int) -> int:
    entries = merged(
        parts.table, TIME, parts.keys.every(parts.keys.outdated, what), up_to=f"{to_text(now)}#{LAST}", page=limit
    )
    return sum(await all_done([_drop(parts, entry) for entry in await _first(entries, limit)]))


async def _drop(parts: Parts, entry: Item) -> bool:
    key = entry[parts.table.pk], entry[parts.table.sk]
    try:
        await parts.table.write(parts.table.delete(key, equal(time_sk=entry["time_sk"])))
    except ConditionFailed as failed:
        return failed.repeated and failed.item is None
    return True


async def _first(entries: Any, limit: int) -> list[Item]:
    found: list[Item] = []
    if limit:
        async for entry in entries:
            found.append(entry)
            if len(found) == limit:
                break
    return found
