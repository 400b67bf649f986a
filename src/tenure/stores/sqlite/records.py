"""Rows and records: reading tasks, and setting aside what cannot be read."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tenure import lifecycle
from tenure.errors import CannotClaim, DamagedRecord
from tenure.payload import NULL
from tenure.stores import sql
from tenure.stores.base import Note
from tenure.stores.notes import value_of
from tenure.stores.sqlite.bulk import pieces, run_many, run_once
from tenure.stores.sqlite.connection import PACKAGE
from tenure.task import Progress, Task, TaskStatus, decode, encode
from tenure.times import from_micros, to_micros

DAMAGED = "damaged"
ANOTHER = "it is another one than its row says"

log = logging.getLogger("tenure.store")
_progress_decoder = msgspec.json.Decoder(Progress)

RECORD = (
    "coalesce(nullif(record, x''), (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq))"
)
COLUMNS = f"seq, id, {RECORD}, lease_expires_at, progress, worker_id, fence, claimed_at, policy_max, ended_at, output, version"
ENDED_AT = 9
"""Where it stands among the columns."""
Row = tuple[
    int, str, bytes | None, int | None, bytes | None, str | None, int, int | None, int | None, int | None, bytes | None,
    int,
]  # fmt: skip
Lane = tuple[str, str, str]


def statement(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return sql.statement(PACKAGE, name)


def load(row: Row) -> Task:
    """A row as a task.

    A claim writes columns only, because most of its cost would be the record, and so does the
    completion that follows it: the record is the one before, and the rules say what the claim
    and the completion made of it. While the task runs, lease and progress are newer in their
    columns, too.
    """
    _, task_id, record, lease_end, progress, worker_id, fence, claimed_at, policy_max, ended_at, output, version = row
    task = decode(record or b"", task_id)
    steps = (claimed_at is not None) + (claimed_at is not None and ended_at is not None)
    if (task.id, task.version + steps) != (task_id, version):
        raise DamagedRecord(task_id, ANOTHER)
    if claimed_at is not None:
        task = _claimed(task, worker_id or "", from_micros(claimed_at), policy_max, fence)
        if ended_at is not None:
            returned = NULL if output is None else msgspec.Raw(output)
            return lifecycle.complete(task, fence, returned, from_micros(ended_at))
    if task.status is not TaskStatus.Running or lease_end is None:
        return task
    return msgspec.structs.replace(
        task,
        lease_expires_at=from_micros(lease_end),
        progress=task.progress if progress is None else _progress_decoder.decode(progress),
    )


def _claimed(task: Task, worker_id: str, now: datetime, policy_max: int | None, fence: int) -> Task:
    try:
        return lifecycle.claim(
            task, worker_id=worker_id, now=now, lease=timedelta(0), policy_max=policy_max, fence=fence
        )
    except CannotClaim as error:
        raise DamagedRecord(task.id, str(error)) from None


def get(db: sqlite3.Connection, task_id: str) -> Task | None:
    """The task with this id."""
    row = db.execute(statement("get"), (task_id,)).fetchone()
    return row and load(row)


def insert(
    db: sqlite3.Connection,
    name: str,
    tasks: Sequence[Task],
    row: Callable[[Task], tuple[Any, ...]],
    common: Sequence[Any] = (),
) -> int:
    """Insert tasks and their records, which are kept apart: steps that do not change them need not write them again.

    The numbers of the rows follow each other; returns the last one.
    """
    last = 0
    for piece in pieces(tasks):
        last = run_once(db, statement(name), [row(task) for task in piece], common).lastrowid or 0
        numbered = enumerate(piece, start=last - len(piece) + 1)
        run_once(db, statement("keep"), [(seq, bytearray(encode(task))) for seq, task in numbered])
    return last


def count(db: sqlite3.Connection, counts: Counter[Lane]) -> None:
    """Add to the counts of queues, types and statuses."""
    run_many(db, statement("count_up"), [(*lane, number) for lane, number in counts.items() if number])


def let_next_go(db: sqlite3.Connection, ordering_key: str) -> None:
    """Whose turn it is among the tasks of a key: nobody's while one runs, else the one submitted first."""
    db.execute(statement("key_block"), (ordering_key,))
    db.execute(statement("key_next"), {"key": ordering_key})


def set_aside(db: sqlite3.Connection, seq: int, damage: DamagedRecord, now: datetime) -> None:
    """Take a record that nobody can read out of the way of the others, and leave a note about it."""
    log.error("%s", damage)
    (status,) = db.execute("SELECT status FROM tenure_tasks WHERE seq = ?", (seq,)).fetchone()
    queue, type_, key = db.execute(statement("set_aside"), (seq,)).fetchone()
    count(db, Counter({(queue, type_, status): -1, (queue, type_, DAMAGED): 1}))
    if key is not None:
        let_next_go(db, key)
    put_note(db, Note(DAMAGED, damage.task_id, {"why": str(damage)}), None, now)


def put_note(db: sqlite3.Connection, note: Note, if_version: int | None, now: datetime) -> bool:
    """Write or delete a note, if its version is the expected one."""
    row = db.execute(statement("note_version"), (note.kind, note.key)).fetchone()
    version = row[0] if row else 0
    if if_version is not None and if_version != version:
        return False
    if note.value:
        value = msgspec.json.encode(note.value)
        db.execute(statement("put_note"), (note.kind, note.key, version + 1, to_micros(now), value))
    else:
        db.execute(statement("delete_note"), (note.kind, note.key))
    return True


def notes(db: sqlite3.Connection, kind: str) -> list[Note]:
    """All notes of a kind."""
    return [
        Note(kind, key, value_of(kind, key, value), from_micros(updated_at), version)
        for key, value, updated_at, version in db.execute(statement("notes"), (kind,))
    ]
