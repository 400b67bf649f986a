"""The SQLite store: one file, one writer thread per process, any number of processes.

The write lock makes every transaction alone in the world, so a claim is a plain search, the
rule from `lifecycle`, and an update. What keeps it fast is that a search only ever meets
tasks that can run (see the indexes in `migrations/`), and that all calls which wait for the
writer share one commit.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from tenure import idempotency, lifecycle
from tenure.errors import DamagedRecord, IdempotencyConflict, InvalidInput
from tenure.idempotency import Reservation, Verdict
from tenure.stores import sql
from tenure.stores.base import (
    PAUSE,
    Change,
    Claimed,
    Count,
    Hold,
    Note,
    Page,
    Query,
    Renewal,
    Store,
    Want,
    paused_queues,
    remembered,
)
from tenure.stores.sqlite.connection import PACKAGE, migrate, open_connection
from tenure.stores.sqlite.threads import ConnectionThread, WriterThread
from tenure.submission import Submission
from tenure.task import OPEN, Progress, Task, TaskStatus, decode, encode
from tenure.times import from_micros, to_micros

OVERDUE_LIMIT = 1000
DAMAGED = "damaged"

log = logging.getLogger("tenure.store")
replace = msgspec.structs.replace
_reservation_decoder = msgspec.json.Decoder(Reservation)
_progress_decoder = msgspec.json.Decoder(Progress)


def _machine_time() -> datetime:
    return datetime.now(UTC)


def _sql(name: str) -> str:
    return sql.statement(PACKAGE, name)


class SqliteStore(Store):
    """Durable tasks in one file."""

    size_limit = 16_000_000

    def __init__(self, path: Path | str, clock: Callable[[], datetime] = _machine_time) -> None:
        self.path = Path(path)
        self._clock = clock
        self._wakes = _Wakes()
        watch = open_connection(self.path)
        try:
            migrate(watch, self.path)
            self._writer = WriterThread(self.path, "tenure-writer", self._wakes.wake)
            self._reader = ConnectionThread(self.path, "tenure-reader")
        except BaseException:
            watch.close()
            raise
        self._watch: sqlite3.Connection | None = watch
        self._watch_lock = threading.Lock()

    async def now(self) -> datetime:
        return self._clock()

    # -- submit

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self._writer.call(lambda db: _Insert(db, self._clock()).run(submissions, all_or_nothing))

    # -- claim

    async def claim(self, want: Want) -> Claimed:
        if not await self._reader.call(lambda db: self._something_to_do(db, want)):
            return Claimed(next_due=await self._reader.call(lambda db: self._next_due(db, want)))
        return await self._writer.call(lambda db: self._claim(db, want))

    def _something_to_do(self, db: sqlite3.Connection, want: Want) -> bool:
        """A look without the write lock, so that idle workers never hold up busy ones."""
        now = to_micros(self._clock())
        if db.execute(_sql("lapsed"), (now, 1)).fetchone() or db.execute(_sql("late"), (now, 1)).fetchone():
            return True
        return any(db.execute(_sql("due_in_lane"), (*lane, now, now, 1)).fetchone() for lane in self._lanes(db, want))

    def _next_due(self, db: sqlite3.Connection, want: Want) -> datetime | None:
        now = to_micros(self._clock())
        firsts = [db.execute(_sql("next_in_lane"), (*lane, now)).fetchone() for lane in self._lanes(db, want)]
        return min((from_micros(first[0]) for first in firsts if first), default=None)

    def _claim(self, db: sqlite3.Connection, want: Want) -> Claimed:
        now = self._clock()
        overdue = self._settle_overdue(db, now)
        stamp, lease_end = to_micros(now), to_micros(now + want.lease)
        claimed: list[Task] = []
        updates = []
        for seq, task in islice(self._due(db, want, stamp), want.count):
            running = lifecycle.claim(
                task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type]
            )
            claimed.append(running)
            updates.append((running.version, running.fence, lease_end, want.worker_id, encode(running), seq))
        db.executemany(_sql("claim"), updates)
        counts: Counter[tuple[str, str, str]] = Counter()
        for task in claimed:
            counts[task.queue, task.type, "pending"] -= 1
            counts[task.queue, task.type, "running"] += 1
        _count(db, counts)
        return Claimed(claimed, overdue, None if claimed else self._next_due(db, want))

    def _due(self, db: sqlite3.Connection, want: Want, now: int) -> Iterator[tuple[int, Task]]:
        """Due tasks in order; the rows of a lane are fetched as they are needed."""
        for _, lanes in groupby(self._lanes(db, want), key=lambda lane: lane[2]):
            rows = [db.execute(_sql("due_in_lane"), (*lane, now, now, want.count)) for lane in lanes]
            for _, seq, task_id, record in rows[0] if len(rows) == 1 else heapq.merge(*rows):
                try:
                    yield seq, decode(record, task_id)
                except DamagedRecord as damage:
                    _set_aside(db, seq, task_id, damage, self._clock())

    def _lanes(self, db: sqlite3.Connection, want: Want) -> list[tuple[str, str, int]]:
        queues: Iterable[str] = want.queues
        if pauses := _notes(db, PAUSE):
            queues = set(want.queues) - paused_queues(pauses, self._clock())
        return db.execute(
            _sql("lanes"), {"queues": json.dumps(sorted(set(queues))), "types": json.dumps(list(want.types))}
        ).fetchall()

    def _settle_overdue(self, db: sqlite3.Connection, now: datetime) -> list[Task]:
        changes = [
            Change(task, after)
            for task in self._overdue(db, now, OVERDUE_LIMIT, set_aside=True)
            if (after := lifecycle.overdue(task, now))
        ]
        _swap(db, changes)
        return [change.after for change in changes]

    # -- change

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        return await self._writer.call(lambda db: _swap(db, changes))

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        return await self._writer.call(lambda db: self._renew(db, renewals))

    def _renew(self, db: sqlite3.Connection, renewals: Sequence[Renewal]) -> list[Hold]:
        now = self._clock()
        holds = []
        for renewal in renewals:
            progress = msgspec.json.encode(renewal.progress) if renewal.progress else None
            until = to_micros(now + renewal.lease)
            row = db.execute(_sql("renew"), (until, progress, renewal.task_id, renewal.fence)).fetchone()
            holds.append(Hold.Lost if row is None else Hold.CancelRequested if row[0] else Hold.Held)
        return holds

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        return await self._writer.call(lambda db: _prune(db, ended_before, now, limit))

    # -- read

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return await self._reader.call(lambda db: [_get(db, task_id) for task_id in ids])

    async def find(self, query: Query) -> Page:
        return await self._reader.call(lambda db: _find(db, query))

    async def overdue(self, now: datetime, limit: int) -> list[Task]:
        return await self._reader.call(lambda db: self._overdue(db, now, limit, set_aside=False))

    def _overdue(self, db: sqlite3.Connection, now: datetime, limit: int, *, set_aside: bool) -> list[Task]:
        stamp = to_micros(now)
        rows = chain(db.execute(_sql("lapsed"), (stamp, limit)), db.execute(_sql("late"), (stamp, limit)))
        tasks = []
        for row in sorted(rows, key=lambda row: (row[3], row[0]))[:limit]:
            try:
                tasks.append(_load(row))
            except DamagedRecord as damage:
                if set_aside:
                    _set_aside(db, row[0], row[1], damage, self._clock())
        return tasks

    async def count(self) -> list[Count]:
        rows = await self._reader.call(lambda db: db.execute(_sql("counts")).fetchall())
        return [Count(queue, type_, TaskStatus(status), count) for queue, type_, status, count in rows]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        return await self._writer.call(lambda db: _put_note(db, note, if_version, self._clock()))

    async def notes(self, kind: str) -> list[Note]:
        return await self._reader.call(lambda db: _notes(db, kind))

    # -- wake-up

    def mark(self) -> object:
        """SQLite's own count of commits by others; the watching connection never writes, so everyone is another."""
        with self._watch_lock:
            if self._watch is None:
                return None
            try:
                return self._watch.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.OperationalError:
                return None

    async def wait(self, mark: object, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while mark is not None and self.mark() == mark:
            left = deadline - time.monotonic()
            if left <= 0 or await self._wakes.sleep(min(left, self._wakes.patience())):
                return

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._reader.close()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
        self._wakes.wake()


class _Wakes:
    """Wakes sleepers of this process at once; how often they look for other processes' commits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sleepers: dict[asyncio.Future[bool], asyncio.AbstractEventLoop] = {}
        self._last = time.monotonic()

    def patience(self) -> float:
        """A look costs some microseconds: every millisecond while things happen, every ten when nothing does."""
        return min(max((time.monotonic() - self._last) / 2000, 0.001), 0.01)

    def wake(self) -> None:
        self._last = time.monotonic()
        if self._sleepers:
            with self._lock:
                for sleeper, loop in self._sleepers.items():
                    loop.call_soon_threadsafe(_finish, sleeper, True)

    async def sleep(self, seconds: float) -> bool:
        """Sleep; True if woken."""
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[bool] = loop.create_future()
        with self._lock:
            self._sleepers[sleeper] = loop
        timer = loop.call_later(seconds, _finish, sleeper, False)
        try:
            return await sleeper
        finally:
            timer.cancel()
            with self._lock:
                del self._sleepers[sleeper]


def _finish(sleeper: asyncio.Future[bool], woken: bool) -> None:
    if not sleeper.done():
        sleeper.set_result(woken)


class _Insert:
    """One batch of submissions, inside a transaction."""

    def __init__(self, db: sqlite3.Connection, now: datetime) -> None:
        self.db, self.now = db, now
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def run(self, submissions: Sequence[Submission], all_or_nothing: bool) -> list[Task | IdempotencyConflict]:
        answers: list[Task | IdempotencyConflict] = []
        for plain, group in groupby(submissions, key=_is_plain):
            if plain:
                answers += self._insert_plain([submission.task for submission in group])
                continue
            for submission in group:
                try:
                    answers.append(self._insert(submission))
                except IdempotencyConflict as conflict:
                    if all_or_nothing:
                        raise
                    answers.append(conflict)
        _count(self.db, self.counts)
        return answers

    def _insert_plain(self, tasks: list[Task]) -> list[Task]:
        """New ids and nothing to look up: one statement for all. An id that is there already undoes it."""
        self.db.execute("SAVEPOINT plain")
        try:
            self.db.executemany(_sql("insert"), [_row(task, blocked=False) for task in tasks])
        except sqlite3.IntegrityError:
            self.db.execute("ROLLBACK TO plain")
            return [self._insert_absent(task) for task in tasks]
        finally:
            self.db.execute("RELEASE plain")
        for task in tasks:
            self.counts[task.queue, task.type, "pending"] += 1
        return tasks

    def _insert(self, submission: Submission) -> Task:
        task, wanted = submission.task, submission.reservation
        if wanted is not None:
            row = self.db.execute(_sql("reservation"), (wanted.identity,)).fetchone()
            if row is not None:
                found = _reservation_decoder.decode(row[0])
                known = self._known(found.task_id)
                verdict = idempotency.judge(found, wanted, self.now, task_known=known is not None)
                if verdict is Verdict.Existing and known is not None:
                    return replace(known, created=False)
                if verdict is Verdict.Finish:
                    task, wanted = replace(task, id=found.task_id), replace(found, state="ready")
            expires_at = None if wanted.expires_at is None else to_micros(wanted.expires_at)
            self.db.execute(_sql("reserve"), (wanted.identity, expires_at, msgspec.json.encode(wanted)))
        return self._insert_absent(task)

    def _insert_absent(self, task: Task) -> Task:
        known = self._known(task.id)
        if known is not None:
            return replace(known, created=False)
        key = task.ordering_key
        blocked = key is not None and self.db.execute(_sql("key_open"), (key,)).fetchone() is not None
        seq = self.db.execute(_sql("insert"), _row(task, blocked=blocked)).lastrowid
        self.db.executemany("INSERT INTO tenure_tags (tag, seq) VALUES (?, ?)", [(tag, seq) for tag in task.tags])
        self.counts[task.queue, task.type, "pending"] += 1
        return task

    def _known(self, task_id: str) -> Task | None:
        task = _get(self.db, task_id)
        if task is None:
            row = self.db.execute(_sql("stone"), (task_id, to_micros(self.now))).fetchone()
            task = row and decode(row[0], task_id)
        return task


def _is_plain(submission: Submission) -> bool:
    task = submission.task
    return submission.reservation is None and not submission.chosen_id and task.ordering_key is None and not task.tags


def _row(task: Task, *, blocked: bool) -> tuple[Any, ...]:
    return (
        task.id,
        task.queue,
        task.type,
        task.priority,
        blocked,
        created := to_micros(task.created_at),
        created if task.available_at is task.created_at else to_micros(task.available_at),
        None if task.expires_at is None else to_micros(task.expires_at),
        task.ordering_key,
        encode(task),
    )


def _swap(db: sqlite3.Connection, changes: Sequence[Change]) -> list[bool]:
    """Nearly always every version fits, and one statement does it; otherwise each is tried alone."""
    rows = [_swap_row(change) for change in changes]
    db.execute("SAVEPOINT swap")
    done = [True] * len(rows)
    if db.executemany(_sql("swap"), rows).rowcount != len(rows) and rows:
        db.execute("ROLLBACK TO swap")
        done = [db.execute(_sql("swap"), row).rowcount == 1 for row in rows]
    db.execute("RELEASE swap")
    counts: Counter[tuple[str, str, str]] = Counter()
    keys: dict[str, None] = {}
    for change, fitted in zip(changes, done, strict=True):
        if fitted:
            before, after = change.before, change.after
            if before.status is not after.status:
                counts[before.queue, before.type, before.status] -= 1
                counts[after.queue, after.type, after.status] += 1
            if after.ordering_key is not None and (before.status in OPEN or after.status in OPEN):
                keys[after.ordering_key] = None
    _count(db, counts)
    for key in keys:
        _let_next_go(db, key)
    return done


def _swap_row(change: Change) -> tuple[Any, ...]:
    before, task = change.before, change.after
    return (
        task.version,
        task.status,
        task.attempts,
        task.fence,
        None if task.available_at is before.available_at else to_micros(task.available_at),
        None if (late := task.expires_at) is before.expires_at or late is None else to_micros(late),
        None if task.lease_expires_at is None else to_micros(task.lease_expires_at),
        None if (ended_at := task.ended_at) is None else to_micros(ended_at),
        task.worker_id,
        task.cancel_requested,
        encode(task),
        task.id,
        before.version,
    )


def _let_next_go(db: sqlite3.Connection, key: str) -> None:
    db.execute(_sql("key_block"), (key,))
    db.execute(_sql("key_next"), {"key": key})


def _count(db: sqlite3.Connection, counts: Counter[tuple[str, str, str]]) -> None:
    db.executemany(_sql("count_up"), [(*lane, count) for lane, count in counts.items() if count])


def _prune(db: sqlite3.Connection, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
    pruned = 0
    counts: Counter[tuple[str, str, str]] = Counter()
    for status, moment in ended_before.items():
        rows = db.execute(_sql("prunable"), (status, to_micros(moment), limit - pruned)).fetchall()
        for seq, task_id, record in rows:
            try:
                task = decode(record, task_id)
            except DamagedRecord as damage:
                _set_aside(db, seq, task_id, damage, now)
                continue
            if stone := remembered(task, now):
                db.execute(_sql("set_stone"), (task.id, to_micros(stone.remember_until or now), encode(stone)))
            db.execute(_sql("delete_task"), (seq,))
            db.executemany(_sql("delete_tag"), [(tag, seq) for tag in task.tags])
            counts[task.queue, task.type, task.status] -= 1
            pruned += 1
    _count(db, counts)
    for statement in ("prune_reservations", "prune_stones"):
        pruned += db.execute(_sql(statement), (to_micros(now), limit)).rowcount
    return pruned


def _get(db: sqlite3.Connection, task_id: str) -> Task | None:
    row = db.execute(_sql("get"), (task_id,)).fetchone()
    return row and _load(row)


def _load(row: tuple[int, str, bytes, int | None, bytes | None]) -> Task:
    """A row as a task: while it runs, lease and progress are newer in their columns than in the record."""
    _, task_id, record, lease_end, progress = row
    task = decode(record, task_id)
    if task.status is not TaskStatus.Running or lease_end is None:
        return task
    return replace(
        task,
        lease_expires_at=from_micros(lease_end),
        progress=task.progress if progress is None else _progress_decoder.decode(progress),
    )


def _find(db: sqlite3.Connection, query: Query) -> Page:
    by_end = query.status is not None and query.status.ended
    conditions, values = _conditions(query)
    rank = "ended_at, seq" if by_end else "seq"
    if query.cursor is not None:
        conditions.append(f"({rank}) {'>' if query.oldest else '<'} ({', '.join('?' * (1 + by_end))})")
        values += _read_cursor(query.cursor, 1 + by_end)
    order = rank if query.oldest else rank.replace(",", " DESC,") + " DESC"
    # The parts are fixed texts of this module; every value is a parameter.
    statement = (
        "SELECT seq, id, record, lease_expires_at, progress, ended_at FROM tenure_tasks"  # noqa: S608
        f" WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT ?"
    )
    rows = db.execute(statement, (*values, query.limit + 1)).fetchall()
    tasks = []
    for row in rows[: query.limit]:
        try:
            tasks.append(_load(row[:5]))
        except DamagedRecord as damage:
            log.warning("%s", damage)
    last = rows[query.limit - 1] if len(rows) > query.limit else None
    return Page(tasks, last and json.dumps([last[5], last[0]] if by_end else [last[0]]))


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    wanted: list[tuple[str, Any]] = [
        ("type = ?", query.type),
        ("queue = ?", query.queue),
        ("worker_id = ?", query.worker_id),
        ("ordering_key = ?", query.ordering_key),
        ("cancel_requested = ?", query.cancel_requested or None),
        ("seq IN (SELECT seq FROM tenure_tags WHERE tag = ?)", query.tag),
        ("created_at < ?", query.created_before and to_micros(query.created_before)),
        ("available_at <= ?", query.available_by and to_micros(query.available_by)),
        ("available_at > ?", query.available_after and to_micros(query.available_after)),
        ("attempts >= ?", query.min_attempts or None),
    ]
    # The status is a fixed word, written out so that SQLite can see which partial index fits.
    status = f"status = '{query.status}'" if query.status else f"status <> '{DAMAGED}'"
    ended = ["ended_at IS NOT NULL"] if query.status and query.status.ended else []
    given = [(condition, value) for condition, value in wanted if value is not None]
    return [status, *ended, *(condition for condition, _ in given)], [value for _, value in given]


def _read_cursor(cursor: str, size: int) -> list[int]:
    try:
        numbers = msgspec.json.decode(cursor, type=list[int])
    except msgspec.MsgspecError:
        numbers = []
    if len(numbers) != size:
        msg = (
            f"{cursor!r} is no cursor of this listing. Use the one that came with the last page, with the same filters."
        )
        raise InvalidInput(msg)
    return numbers


def _set_aside(db: sqlite3.Connection, seq: int, task_id: str, damage: DamagedRecord, now: datetime) -> None:
    """Take a record that nobody can read out of the way of the others, and leave a note about it."""
    log.error("%s", damage)
    (status,) = db.execute("SELECT status FROM tenure_tasks WHERE seq = ?", (seq,)).fetchone()
    queue, type_, key = db.execute(_sql("set_aside"), (seq,)).fetchone()
    _count(db, Counter({(queue, type_, status): -1, (queue, type_, DAMAGED): 1}))
    if key is not None:
        _let_next_go(db, key)
    _put_note(db, Note(DAMAGED, task_id, {"why": str(damage)}), None, now)


def _put_note(db: sqlite3.Connection, note: Note, if_version: int | None, now: datetime) -> bool:
    row = db.execute(_sql("note_version"), (note.kind, note.key)).fetchone()
    version = row[0] if row else 0
    if if_version is not None and if_version != version:
        return False
    if note.value:
        value = msgspec.json.encode(note.value)
        db.execute(_sql("put_note"), (note.kind, note.key, version + 1, to_micros(now), value))
    else:
        db.execute(_sql("delete_note"), (note.kind, note.key))
    return True


def _notes(db: sqlite3.Connection, kind: str) -> list[Note]:
    return [
        Note(kind, key, msgspec.json.decode(value), from_micros(updated_at), version)
        for key, value, updated_at, version in db.execute(_sql("notes"), (kind,))
    ]
