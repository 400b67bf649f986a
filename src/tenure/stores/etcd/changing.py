"""Replacing versions, renewing leases, forgetting ended tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tenure import lifecycle
from tenure.errors import StoreUnavailable
from tenure.stores.base import Change, Hold, Renewal, remembered
from tenure.stores.etcd.database import BYTES_LIMIT, Database
from tenure.stores.etcd.layout import moment, name
from tenure.stores.etcd.records import Claim, Sight, Stored, read_claim
from tenure.stores.etcd.requests import created_at, get, unmodified
from tenure.stores.etcd.writing import Batch
from tenure.task import Task, TaskStatus, encode

replace = msgspec.structs.replace

GROUP = 40
"""Changes in one transaction: each has up to two conditions, and room must be left for what it writes."""
TRIES = 100


async def swap(db: Database, changes: Sequence[Change]) -> list[bool]:
    """Make changes; those of one task in their order, others in groups side by side."""
    done: dict[int, bool] = {}
    left = list(enumerate(changes))
    while left:
        ids: set[str] = set()
        now: list[tuple[int, Change]] = []
        later: list[tuple[int, Change]] = []
        for numbered in left:
            (later if numbered[1].after.id in ids else now).append(numbered)
            ids.add(numbered[1].after.id)
        for answers in await asyncio.gather(*(_swap_group(db, group) for group in _groups(now))):
            done |= answers
        left = later
    return [done[number] for number in range(len(changes))]


def _groups(changes: list[tuple[int, Change]]) -> list[list[tuple[int, Change]]]:
    groups: list[list[tuple[int, Change]]] = []
    size = BYTES_LIMIT
    for numbered in changes:
        task = numbered[1].after
        more = len(bytes(task.input_json)) + len(bytes(task.output_json)) + 2000
        size += more
        if size > BYTES_LIMIT or len(groups[-1]) == GROUP:
            groups.append([])
            size = more
        groups[-1].append(numbered)
    return groups


async def _swap_group(db: Database, group: list[tuple[int, Change]]) -> dict[int, bool]:
    """One transaction; when another was faster with one of these tasks, look again and leave that one out."""
    answers: dict[int, bool] = {}
    for attempt in range(TRIES):
        group = await _still_fitting(db, group, answers, fresh=attempt > 0)
        if not group:
            return answers
        batch = Batch()
        sights = {change.after.id: db.memory[change.after.id] for _, change in group}
        claims = await _claims_to_keep(db, [change for _, change in group])
        for _, change in group:
            _swap_one(db, batch, change, sights[change.after.id], claims.get(change.after.id))
        batch.deletes.update(db.leases.over())
        outcome = await db.commit(batch)
        if outcome.done:
            for number, change in group:
                _keep(db, change.after, sights[change.after.id], outcome.revision)
                answers[number] = True
            return answers
    msg = f"Others kept changing these {len(group)} tasks. Try again."
    raise StoreUnavailable(msg)


async def _still_fitting(
    db: Database, group: list[tuple[int, Change]], answers: dict[int, bool], *, fresh: bool
) -> list[tuple[int, Change]]:
    """The changes whose task is still of the version that they start from, by what was seen last or by a look now."""
    unsure = [
        change.after.id
        for _, change in group
        if fresh
        or change.if_unrenewed
        or (sight := db.memory.get(change.after.id)) is None
        or sight.version != change.before.version
    ]
    found = dict(zip(unsure, await db.sound(unsure), strict=True))
    fitting = []
    for number, change in group:
        task_id = change.after.id
        if task_id in found and not _fits(change, found[task_id]):
            answers[number] = False
        else:
            fitting.append((number, change))
    return fitting


def _fits(change: Change, stored: Stored | None) -> bool:
    if stored is None or stored.task.version != change.before.version:
        return False
    return not change.if_unrenewed or stored.task.lease_expires_at == change.before.lease_expires_at


async def _claims_to_keep(db: Database, changes: Sequence[Change]) -> dict[str, Stored]:
    """The claims that a change must find as they are: of tasks that go on running, or that must not have been renewed."""
    ids = [
        change.after.id
        for change in changes
        if change.before.status is TaskStatus.Running
        and (change.if_unrenewed or change.after.status is TaskStatus.Running)
    ]
    return {stored.task.id: stored for stored in await db.sound(ids) if stored is not None} if ids else {}


def _swap_one(db: Database, batch: Batch, change: Change, sight: Sight, held: Stored | None) -> None:
    before, after = change.before, change.after
    layout = db.layout
    batch.compares.append(unmodified(layout.task(after.id), sight.revision))
    db.move(batch, before, after, sight.place)
    if before.status.ended:
        return
    key = layout.claim(after.id)
    if before.status is TaskStatus.Pending:
        # A claim leaves the record as it is.
        batch.compares.append(created_at(key, 0))
        return
    if held is None:
        batch.compares.append(created_at(key, sight.claimed_at))
    else:
        batch.compares.append(unmodified(key, held.renewed_at))
    if after.status is not TaskStatus.Running:
        batch.deletes.add(key)
    elif held is not None and held.claim is not None:
        # A claim goes on with the lease and the progress of the renewal that came last.
        ends = max(held.claim.lease_expires_at, after.lease_expires_at or held.claim.lease_expires_at)
        claim = replace(held.claim, lease_expires_at=ends, cancel_requested=after.cancel_requested)
        batch.puts[key] = msgspec.json.encode(claim)


def _keep(db: Database, task: Task, sight: Sight, revision: int) -> None:
    if task.status is not TaskStatus.Running:
        db.leases.ended(task.id)
    claimed_at = sight.claimed_at if task.status is TaskStatus.Running else 0
    db.memory.put(task.id, Sight(task.version, sight.place, revision, claimed_at))


async def renew(db: Database, renewals: Sequence[Renewal], now: datetime) -> list[Hold]:
    """Extend leases: only the claims are read and written, and no version is made."""
    groups = [renewals[start : start + GROUP] for start in range(0, len(renewals), GROUP)]
    return [hold for group in await asyncio.gather(*(_renew(db, group, now) for group in groups)) for hold in group]


async def _renew(db: Database, renewals: Sequence[Renewal], now: datetime) -> list[Hold]:
    layout = db.layout
    for _ in range(TRIES):
        found = await db.read([get(layout.claim(renewal.task_id)) for renewal in renewals])
        batch, holds = Batch(), []
        held: dict[bytes, Claim] = {}
        for renewal, kvs in zip(renewals, found, strict=True):
            claim = read_claim(kvs[0].value) if kvs else None
            if claim is None or claim.fence_at(kvs[0].create_revision) != renewal.fence:
                holds.append(Hold.Lost)
                continue
            holds.append(Hold.CancelRequested if claim.cancel_requested else Hold.Held)
            claim = held.get(kvs[0].key, claim)
            ends = max(claim.lease_expires_at, lifecycle.later(now, renewal.lease))
            held[kvs[0].key] = replace(claim, lease_expires_at=ends, progress=renewal.progress or claim.progress)
            batch.compares.append(unmodified(kvs[0].key, kvs[0].mod_revision))
        if not held:
            return holds
        batch.puts |= {key: msgspec.json.encode(claim) for key, claim in held.items()}
        if (await db.commit(batch)).done:
            return holds
    msg = f"Others kept changing these {len(renewals)} claims. Try again."
    raise StoreUnavailable(msg)


async def forget(db: Database, tasks: Sequence[Task], now: datetime) -> list[bool]:
    """Delete these versions of ended tasks; those that are to be remembered leave a stone."""
    done: list[bool] = []
    for start in range(0, len(tasks), GROUP):
        done += await _forget(db, tasks[start : start + GROUP], now)
    return done


async def _forget(db: Database, tasks: Sequence[Task], now: datetime) -> list[bool]:
    for _ in range(TRIES):
        batch, done = Batch(), []
        gone: set[str] = set()
        for task, stored in zip(tasks, await db.sound([task.id for task in tasks]), strict=True):
            fits = stored is not None and stored.task.version == task.version and stored.task.status.ended
            done.append(fits and task.id not in gone)
            if stored is None or not done[-1]:
                continue
            gone.add(task.id)
            batch.compares.append(unmodified(db.layout.task(task.id), stored.revision))
            db.move(batch, stored.task, None, stored.place)
            if stone := remembered(stored.task, now):
                set_stone(db, batch, stone)
        if not gone or (await db.commit(batch)).done:
            for task_id in gone:
                db.memory.pop(task_id, None)
            return done
    msg = f"Others kept changing these {len(tasks)} tasks. Try again."
    raise StoreUnavailable(msg)


def set_stone(db: Database, batch: Batch, stone: Task) -> None:
    """Remember a pruned task until its time is over."""
    assert stone.remember_until is not None
    batch.puts[db.layout.stone(stone.id)] = encode(stone)
    batch.puts[db.layout.key(b"forgotten", moment(stone.remember_until), name(stone.id))] = b""
