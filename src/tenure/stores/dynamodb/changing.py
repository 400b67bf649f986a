"""Replacing versions and renewing leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tenure import lifecycle
from tenure.errors import ConcurrentChange, DamagedRecord
from tenure.stores.base import Change, Hold, Renewal
from tenure.stores.dynamodb import ordering
from tenure.stores.dynamodb.counting import bucket
from tenure.stores.dynamodb.damage import set_named_aside
from tenure.stores.dynamodb.items import load
from tenure.stores.dynamodb.keys import scheduled_key
from tenure.stores.dynamodb.table import TRIES, token
from tenure.stores.dynamodb.together import Entry, Parts, all_done, groups, write_together
from tenure.stores.dynamodb.trouble import ConditionFailed
from tenure.stores.dynamodb.versions import another_rank, new_values, unchanged
from tenure.stores.dynamodb.wire import Item, both, compared, equal
from tenure.task import Task, TaskStatus
from tenure.times import to_text


async def swap(parts: Parts, changes: Sequence[Change], now: datetime) -> list[bool]:
    """Make changes; two of one task are made one after the other."""
    if max(Counter(change.after.id for change in changes).values(), default=0) > 1:
        return [(await swap(parts, [change], now))[0] for change in changes]
    await _learn_ranks(parts, [change.after.id for change in changes])
    await parts.lanes.ensure((c.after for c in changes if c.after.status is TaskStatus.Pending), now)
    answers: dict[str, bool] = {}
    together = []
    alone = []
    for change in changes:
        if parts.ranks.guess(change.after.id) is None:
            answers[change.after.id] = False
        elif ordering.matters(change):
            alone.append(_swap_ordered(parts, change, now))
        elif bucket(change.before) != bucket(change.after):
            together.append(change)
        else:
            alone.append(_swap_alone(parts, change))
    calls = [*alone, *(_swap_group(parts, group) for group in groups(_entries(parts, together)))]
    for done in await all_done(calls):
        answers |= done
    return [answers[change.after.id] for change in changes]


async def _learn_ranks(parts: Parts, ids: list[str]) -> None:
    """Read the places of tasks whose ids do not say them."""
    unknown = [task_id for task_id in ids if parts.ranks.guess(task_id) is None]
    if unknown:
        found = await parts.table.get(parts.keys.task(task_id) for task_id in unknown)
        for (pk, _), item in found.items():
            if "all_sk" in item:
                parts.ranks.learn(parts.keys.task_id(pk), item)


async def _swap_ordered(parts: Parts, change: Change, now: datetime) -> dict[str, bool]:
    """A change that can make it another task's turn. One of them that cannot be read is passed over."""
    for _ in range(TRIES):
        try:
            return await ordering.swap(parts, change, now)
        except DamagedRecord as damage:
            await set_named_aside(parts, damage, now)
    raise ConcurrentChange(change.after.id)


async def _swap_alone(parts: Parts, change: Change) -> dict[str, bool]:
    """A change that moves no count: one conditional write."""
    task_id = change.after.id
    while True:
        rank, mine = parts.ranks.guess(task_id) or "", token()
        values = new_values(parts, change, rank) | {"write": mine}
        action = parts.table.update(parts.keys.task(task_id), values, condition=unchanged(change, rank))
        try:
            await parts.table.write(action, mine=mine)
        except ConditionFailed as failed:
            if not another_rank(parts, task_id, failed.item, rank):
                return {task_id: False}
        else:
            return {task_id: True}


def _entries(parts: Parts, changes: Sequence[Change]) -> list[Entry]:
    found = []
    for change in changes:
        rank = parts.ranks.guess(change.after.id) or ""
        action = parts.table.update(
            parts.keys.task(change.after.id), new_values(parts, change, rank), condition=unchanged(change, rank)
        )
        found.append(Entry([action], change.before, change.after, (change, rank)))
    return found


async def _swap_group(parts: Parts, entries: list[Entry]) -> dict[str, bool]:
    answers: dict[str, bool] = {}
    while entries:
        await write_together(parts, entries)
        again = []
        for entry in entries:
            change, rank = entry.mark
            answers[change.after.id] = entry.failed is None
            if entry.failed and another_rank(parts, change.after.id, entry.failed[0].item, rank):
                again.append(change)
        entries = _entries(parts, again)
    return answers


async def renew(parts: Parts, renewals: Sequence[Renewal], now: datetime) -> list[Hold]:
    """Extend the leases that are still held, all at once."""
    await _learn_ranks(parts, [renewal.task_id for renewal in renewals])
    if len({renewal.task_id for renewal in renewals}) < len(renewals):
        return [await _renew(parts, renewal, now) for renewal in renewals]
    return await all_done(_renew(parts, renewal, now) for renewal in renewals)


async def _renew(parts: Parts, renewal: Renewal, now: datetime) -> Hold:
    task_id, until = renewal.task_id, lifecycle.later(now, renewal.lease)
    held = equal(status=TaskStatus.Running.value, fence=renewal.fence)
    report = {"progress": msgspec.json.encode(renewal.progress).decode()} if renewal.progress else {}
    key = parts.keys.task(task_id)
    while True:
        rank = parts.ranks.guess(task_id)
        if rank is None:
            return Hold.Lost
        values = {"lock_expires_at": to_text(until), "time_sk": scheduled_key(until, rank), **report}
        longer = both(held, equal(all_sk=rank), compared("lock_expires_at", "<", to_text(until)))
        try:
            return _hold(await parts.table.write(parts.table.update(key, values, condition=longer)), task_id)
        except ConditionFailed as failed:
            item = failed.item
        if item is None or item.get("status") != TaskStatus.Running or item.get("fence") != renewal.fence:
            return Hold.Lost
        if not another_rank(parts, task_id, item, rank):
            break
    # The lease reaches further already: it is never made shorter.
    if report:
        try:
            item = await parts.table.write(parts.table.update(key, report, condition=held))
        except ConditionFailed:
            return Hold.Lost
    return _hold(item, task_id)


def _hold(item: Item | None, task_id: str) -> Hold:
    assert item is not None
    return Hold.CancelRequested if load(item, task_id).cancel_requested else Hold.Held


async def read(parts: Parts, ids: Sequence[str]) -> dict[str, Task]:
    """The tasks with these ids, as they are now."""
    found = await parts.table.get(parts.keys.task(task_id) for task_id in ids)
    tasks = {}
    for (pk, _), item in found.items():
        if "all_sk" in item:
            task_id = parts.keys.task_id(pk)
            parts.ranks.learn(task_id, item)
            tasks[task_id] = load(item, task_id)
    return tasks
