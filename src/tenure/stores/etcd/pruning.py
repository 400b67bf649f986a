"""Forgetting what was kept long enough, a bounded piece at a time and never by looking at everything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tenure.idempotency import read_reservation
from tenure.stores.base import remembered
from tenure.stores.etcd.changing import forget
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.inserting import reserve
from tenure.stores.etcd.layout import CHANGED, after, moment, plain
from tenure.stores.etcd.requests import KeyValue, get, none_in, unmodified, walk
from tenure.stores.etcd.writing import ABANDONED_AFTER, Batch
from tenure.task import TaskStatus, decode

GROUP = 60
LANES = 100


async def prune(db: Database, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
    """Forget up to `limit` ended tasks, and as many stale reservations and stones."""
    pruned = await _prune_ended(db, ended_before, now, limit)
    pruned += await _prune_reservations(db, now, limit)
    pruned += await _prune_stones(db, now, limit)
    await _prune_lanes(db)
    await _prune_news(db, now)
    await db.writer.fold(now)
    return pruned


async def _prune_ended(db: Database, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
    folders = [db.layout.folder(b"ended", status.encode()) for status in ended_before]
    if not folders or not limit:
        return 0
    ops = [
        walk(folder, folder + moment(until) + b"0", limit, keys_only=True)
        for folder, until in zip(folders, ended_before.values(), strict=True)
    ]
    found = await db.read(ops)
    ranks = sorted(kv.key[len(folder) :] for folder, kvs in zip(folders, found, strict=True) for kv in kvs)[:limit]
    tasks = await db.sound([plain(rank.rpartition(b"/")[2]) for rank in ranks])
    return sum(await forget(db, [stored.task for stored in tasks if stored is not None], now))


async def _prune_reservations(db: Database, now: datetime, limit: int) -> int:
    pruned = 0
    for marks in await _due_marks(db, b"stale", now, limit):
        layout, batch = db.layout, Batch()
        keys = [layout.root + b"reservation/" + mark.key.rpartition(b"/")[2] for mark in marks]
        gone = 0
        for mark, key, kvs in zip(marks, keys, await db.read([get(key) for key in keys]), strict=True):
            batch.deletes.add(mark.key)
            reservation = read_reservation(kvs[0].value, kvs[0].key.decode()) if kvs else None
            batch.compares.append(unmodified(key, kvs[0].mod_revision if kvs else 0))
            if reservation is not None and reservation.is_stale_at(now):
                reserve(db, batch, reservation, None)
                gone += 1
        if (await db.commit(batch)).done:
            pruned += gone
    return pruned


async def _prune_stones(db: Database, now: datetime, limit: int) -> int:
    pruned = 0
    for marks in await _due_marks(db, b"forgotten", now, limit):
        batch = Batch()
        keys = [db.layout.root + b"stone/" + mark.key.rpartition(b"/")[2] for mark in marks]
        gone = 0
        for mark, key, kvs in zip(marks, keys, await db.read([get(key) for key in keys]), strict=True):
            batch.deletes.add(mark.key)
            batch.compares.append(unmodified(key, kvs[0].mod_revision if kvs else 0))
            if kvs and remembered(decode(kvs[0].value), now) is None:
                batch.deletes.add(key)
                gone += 1
        if (await db.commit(batch)).done:
            pruned += gone
    return pruned


async def _due_marks(db: Database, kind: bytes, now: datetime, limit: int) -> list[list[KeyValue]]:
    """The entries of an index by time whose time has come, in groups."""
    if not limit:
        return []
    folder = db.layout.folder(kind)
    (found,) = await db.read([walk(folder, folder + moment(now) + b"0", limit, keys_only=True)])
    return [found[start : start + GROUP] for start in range(0, len(found), GROUP)]


async def _prune_news(db: Database, now: datetime) -> None:
    """Take away what handles have told that were not closed and are silent for long."""
    folder = db.layout.folder(b"news", CHANGED)
    (told,) = await db.read([walk(folder, after(folder), LANES)])
    batch = Batch()
    for each in told:
        if each.value < moment(now - ABANDONED_AFTER):
            batch.compares.append(unmodified(each.key, each.mod_revision))
            batch.deletes.add(each.key)
    if batch.compares:
        await db.commit(batch)


async def _prune_lanes(db: Database) -> None:
    """Take away the marks of lanes in which nothing waits, so that claims do not look there."""
    layout = db.layout
    folder = layout.folder(b"lane")
    (marks,) = await db.read([walk(folder, after(folder), LANES, keys_only=True)])
    folders = [layout.root + b"due/" + mark.key.removeprefix(folder) + b"/" for mark in marks]
    found = await db.read([walk(due, after(due), 1, keys_only=True) for due in folders]) if folders else []
    for mark, due, kvs in zip(marks, folders, found, strict=True):
        if not kvs:
            batch = Batch()
            # Whoever writes a due entry writes the mark of its lane with it.
            batch.compares += [unmodified(mark.key, mark.mod_revision), none_in(due, after(due))]
            batch.deletes.add(mark.key)
            await db.commit(batch)
