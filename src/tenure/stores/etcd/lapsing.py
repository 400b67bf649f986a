"""What time has caught up with: leases that have run out, deadlines that have passed.

Each claim of a batch leaves one entry `lease/<end>/<number>` with the ids that it took. A lease only gets longer,
so no claim lapses before an entry that names it; when that time has come, the claims themselves are looked at,
and those that were renewed are entered again at their new end.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import Change
from tenure.stores.etcd.changing import swap
from tenure.stores.etcd.damage import set_aside
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import moment, plain
from tenure.stores.etcd.records import ANOTHER, Stored, read_claim
from tenure.stores.etcd.requests import KeyValue, get, unmodified, walk
from tenure.stores.etcd.writing import Batch
from tenure.task import Task, TaskStatus

ENTRIES = 30
PIECE = 100
SWEEP = 500


def enter_lease(db: Database, batch: Batch, ends: datetime, ids: Iterable[str]) -> bytes:
    """Note when the leases of these claims end at the earliest; answers with the key of the entry."""
    key = db.layout.key(b"lease", moment(ends), secrets.token_hex(6).encode())
    batch.puts[key] = msgspec.json.encode(list(ids))
    return key


def overdue_ops(
    db: Database, now: datetime, leases: int, deadlines: int, since: datetime | None = None
) -> list[object]:
    """The reads that tell whether anything can be overdue, or can have come to pass its deadline `since`."""
    until = moment(now) + b"0"
    first = db.layout.folder(b"deadline") if since is None else db.layout.key(b"deadline", moment(since) + b"0")
    return [
        walk(db.layout.folder(b"lease"), db.layout.key(b"lease", until), leases),
        walk(first, db.layout.key(b"deadline", until), deadlines),
    ]


async def overdue(db: Database, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Stored]:
    """Running tasks whose lease has run out and pending ones past their deadline, longest overdue first."""
    ids, deadlines = await _candidates(db, now, limit, only)
    late = []
    for stored in await _sound(db, ids, now, deadlines):
        if only in (None, stored.task.status) and lifecycle.overdue(stored.task, now) is not None:
            since = stored.task.lease_expires_at or stored.task.expires_at or now
            late.append((since, stored.place, stored.task.id, stored))
    return [stored for *_, stored in sorted(late, key=lambda entry: entry[:3])[:limit]]


async def count_overdue(
    db: Database, now: datetime, limit: int, only: TaskStatus, since: datetime | None
) -> dict[str, int]:
    """How many of them there are of each type; no more records are kept than are read at once."""
    counts: Counter[str] = Counter()
    ids, deadlines = await _candidates(db, now, limit, only, since)
    for start in range(0, len(ids), PIECE):
        found = [stored.task for stored in await _sound(db, ids[start : start + PIECE], now, deadlines)]
        types = [task.type for task in found if task.status is only and lifecycle.became_overdue(task, since, now)]
        counts.update(types[: limit - counts.total()])
        if counts.total() >= limit:
            break
    return counts


async def settle_overdue(db: Database, now: datetime) -> list[Task]:
    """End claims that have lapsed and tasks that are late; what another settles at this moment is left to it."""
    changes = [
        Change(stored.task, after, if_unrenewed=True)
        for stored in await overdue(db, now, SWEEP)
        if (after := lifecycle.overdue(stored.task, now)) is not None
    ]
    done = await swap(db, changes)
    return [change.after for change, fits in zip(changes, done, strict=True) if fits]


async def _candidates(
    db: Database, now: datetime, limit: int, only: TaskStatus | None, since: datetime | None = None
) -> tuple[list[str], dict[str, KeyValue]]:
    """The ids of what can be overdue, and where those stand that have a deadline."""
    by_status = zip((TaskStatus.Running, TaskStatus.Pending), overdue_ops(db, now, 0, limit, since), strict=True)
    reads = {status: read for status, read in by_status if only in (None, status)}
    found = dict(zip(reads, await db.read([*reads.values()]), strict=True))
    entries = found.get(TaskStatus.Running, [])
    late = {plain(entry.key.rpartition(b"/")[2]): entry for entry in found.get(TaskStatus.Pending, [])}
    lapsed: list[str] = []
    for start in range(0, len(entries), ENTRIES):
        lapsed += await _lapsed(db, entries[start : start + ENTRIES], now)
    return [*dict.fromkeys([*lapsed, *late])], late


async def _lapsed(db: Database, entries: Sequence[KeyValue], now: datetime) -> list[str]:
    """The ids whose lease is over. Entries are tidied up on the way, and are not missed if that fails."""
    named = [msgspec.json.decode(entry.value, type=list[str]) for entry in entries]
    ids = [task_id for names in named for task_id in names]
    found = (
        dict(zip(ids, await db.read([get(db.layout.claim(task_id)) for task_id in ids]), strict=True)) if ids else {}
    )
    batch = Batch()
    lapsed: list[str] = []
    for entry, names in zip(entries, named, strict=True):
        ends = {task_id: read_claim(found[task_id][0].value).lease_expires_at for task_id in names if found[task_id]}
        over = [task_id for task_id in names if task_id in ends and ends[task_id] <= now]
        lapsed += over
        later = [task_id for task_id in ends if ends[task_id] > now]
        if len(over) == len(names):
            continue
        batch.compares.append(unmodified(entry.key, entry.mod_revision))
        if later:
            enter_lease(db, batch, min(ends[task_id] for task_id in later), later)
        if over:
            batch.puts[entry.key] = msgspec.json.encode(over)
        else:
            batch.deletes.add(entry.key)
    if batch.compares:
        await db.commit(batch)
    return lapsed


async def _sound(db: Database, ids: Sequence[str], now: datetime, deadlines: Mapping[str, KeyValue]) -> list[Stored]:
    """The tasks with these ids; those that cannot be read, or are not what their deadline says, are set aside."""
    sound: list[Stored] = []
    for task_id, stored in zip(ids, await db.look(ids), strict=True):
        if stored is None:
            continue
        deadline = deadlines.get(task_id)
        if isinstance(stored, Stored) and (deadline is None or _has(db, stored, deadline)):
            sound.append(stored)
        else:
            damage = DamagedRecord(task_id, ANOTHER) if isinstance(stored, Stored) else stored
            place, key = (deadline.key.split(b"/")[-2], deadline.value.decode() or None) if deadline else (b"", None)
            await set_aside(db, damage, now, place, key, deadline=deadline)
    return sound


def _has(db: Database, stored: Stored, deadline: KeyValue) -> bool:
    """Whether a task has this deadline. Those of older versions do not tell the ordering key."""
    pending = stored.task.status is TaskStatus.Pending
    key = db.layout.entries(stored.task, stored.place).get(deadline.key) if pending else None
    return key is not None and deadline.value in (key, b"")
