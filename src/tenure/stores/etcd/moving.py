"""Everything out of one store and into another, exactly as it is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tenure.errors import DamagedRecord, StoreUnavailable
from tenure.idempotency import Reservation, read_reservation
from tenure.stores.base import Piece
from tenure.stores.cursors import STONES, TASKS, dump_cursor, read_dump_cursor
from tenure.stores.etcd.changing import set_stone
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.inserting import TRIES, Insert, reserve
from tenure.stores.etcd.lapsing import enter_lease
from tenure.stores.etcd.layout import RUNNING, after, place_of, plain
from tenure.stores.etcd.records import Claim
from tenure.stores.etcd.requests import created_at, get, unmodified, walk
from tenure.stores.etcd.walking import Walk
from tenure.stores.etcd.writing import Batch
from tenure.task import Task, TaskStatus, decode

GROUP = 30


async def dump(db: Database, cursor: str | None, limit: int, now: datetime) -> Piece:
    """One page of one kind of record; the cursor names the kind and the last key."""
    kind, last = read_dump_cursor(cursor, "")
    piece = Piece([], [], [], [])
    keys = await (_dump_tasks if kind == TASKS else _dump_others)(db, piece, kind, last, limit, now)
    more = len(keys) == limit
    return msgspec.structs.replace(piece, cursor=dump_cursor(kind, keys[-1] if more else None, more=more))


async def _dump_tasks(db: Database, piece: Piece, _: str, last: str, limit: int, now: datetime) -> list[str]:
    folders = [db.layout.folder(b"open"), db.layout.folder(b"done")]
    ranks = await Walk(db, folders, last.encode() or None, oldest=True, now=now).next(limit)
    ids = [plain(rank.rpartition(b"/")[2]) for rank in ranks]
    for stored in await db.look(ids):
        if isinstance(stored, DamagedRecord):
            piece.damaged.append(stored.task_id)
        elif stored is not None:
            piece.tasks.append(stored.task)
    return [rank.decode() for rank in ranks]


async def _dump_others(db: Database, piece: Piece, kind: str, last: str, limit: int, _: datetime) -> list[str]:
    folder = db.layout.folder(b"stone" if kind == STONES else b"reservation")
    start = folder + last.encode() + b"\0" if last else folder
    (found,) = await db.read([walk(start, after(folder), limit)])
    for kv in found:
        name = plain(kv.key[len(folder) :])
        try:
            if kind == STONES:
                piece.stones.append(decode(kv.value, name))
            else:
                piece.reservations.append(read_reservation(kv.value, kv.key.decode()))
        except (DamagedRecord, msgspec.MsgspecError):
            piece.damaged.append(name)
    return [kv.key[len(folder) :].decode() for kv in found]


async def restore(db: Database, piece: Piece, now: datetime) -> Piece:
    """Put in what is absent, a group in each transaction; places follow the order of the piece."""
    there = Piece([], [], [])
    insert = Insert(db, now)
    for start in range(0, len(piece.tasks), GROUP):
        there.tasks.extend(await _restore(insert, piece.tasks[start : start + GROUP], stones=False))
    for start in range(0, len(piece.stones), GROUP):
        there.stones.extend(await _restore(insert, piece.stones[start : start + GROUP], stones=True))
    for start in range(0, len(piece.reservations), GROUP):
        there.reservations.extend(await _restore_reservations(db, piece.reservations[start : start + GROUP], now))
    return there


async def _restore(insert: Insert, records: list[Task], *, stones: bool) -> list[Task]:
    """Tasks or stones that are absent; answers with those that are not."""
    db = insert.db
    for _ in range(TRIES):
        await insert.know([record.id for record in records])
        insert.after = insert.after or db.client.revision
        batch = Batch()
        absent = [record for record in records if insert.tasks[record.id] is None]
        for number, record in enumerate(absent):
            batch.compares += [
                created_at(db.layout.task(record.id), 0),
                unmodified(db.layout.stone(record.id), insert.stones[record.id]),
            ]
            if stones:
                set_stone(db, batch, record)
            else:
                _put_in(db, batch, record, place_of(insert.after, insert.number + number))
        if not absent or (await db.commit(batch)).done:
            insert.number += len(absent)
            return [known for record in records if record not in absent and (known := insert.tasks[record.id])]
    msg = f"Others kept submitting the same {len(records)} tasks. Try again."
    raise StoreUnavailable(msg)


def _put_in(db: Database, batch: Batch, task: Task, place: bytes) -> None:
    db.move(batch, None, task, place)
    if task.status is not TaskStatus.Running:
        return
    ends = task.lease_expires_at or task.created_at
    claim = Claim(
        task.worker_id or "",
        task.started_at or task.created_at,
        ends,
        progress=task.progress,
        cancel_requested=task.cancel_requested,
        fence=task.fence,
        ordering_key=task.ordering_key,
    )
    batch.puts[db.layout.claim(task.id)] = msgspec.json.encode(claim)
    enter_lease(db, batch, ends, [task.id])
    if task.ordering_key is not None:
        batch.puts[db.layout.turn(task.ordering_key)] = RUNNING


async def _restore_reservations(db: Database, wanted: list[Reservation], now: datetime) -> list[Reservation]:
    for _ in range(TRIES):
        batch, there = Batch(), []
        keys = [db.layout.reservation(reservation.identity) for reservation in wanted]
        for reservation, key, kvs in zip(wanted, keys, await db.read([get(key) for key in keys]), strict=True):
            found = read_reservation(kvs[0].value, kvs[0].key.decode()) if kvs else None
            if found is not None and not found.is_stale_at(now):
                there.append(found)
                continue
            batch.compares.append(unmodified(key, kvs[0].mod_revision if kvs else 0))
            reserve(db, batch, found, reservation)
        if not batch.compares or (await db.commit(batch)).done:
            return there
    msg = f"Others kept writing the same {len(wanted)} reservations. Try again."
    raise StoreUnavailable(msg)
