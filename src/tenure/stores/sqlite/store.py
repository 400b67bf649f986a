"""The SQLite store: one file, one writer thread per process, any number of processes.

The write lock makes every transaction alone in the world, so a claim is a plain search, the
rule from `lifecycle`, and an update. What keeps it fast: a search only ever meets tasks that
can run (see the indexes in `migrations/`), a batch is a statement (see `bulk`), and all calls
which wait for the writer share one commit (see `threads`).
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tenure.errors import IdempotencyConflict
from tenure.idempotency import Reservation
from tenure.stores.base import Change, Claimed, Count, Due, Hold, Note, Page, Piece, Query, Renewal, Store, Want
from tenure.stores.sqlite.changing import Misfit, Swap, count_overdue, forget, overdue, prune, renew, swap, swap_each
from tenure.stores.sqlite.claiming import Taken, read, read_one_by_one, take
from tenure.stores.sqlite.connection import about, migrate, open_connection
from tenure.stores.sqlite.finding import find, running_since
from tenure.stores.sqlite.forking import use_of
from tenure.stores.sqlite.inserting import Insert, reservation
from tenure.stores.sqlite.moving import dump, restore
from tenure.stores.sqlite.records import get, notes, put_note, statement
from tenure.stores.sqlite.threads import ConnectionThread, WriterThread
from tenure.stores.sqlite.waking import Wakes
from tenure.submission import Submission
from tenure.task import Task, TaskStatus
from tenure.times import from_micros, to_micros


def _machine_time() -> datetime:
    return datetime.now(UTC)


class SqliteStore(Store):
    """Durable tasks in one file."""

    size_limit = 16_000_000

    def __init__(self, path: Path | str, clock: Callable[[], datetime] = _machine_time) -> None:
        self.path = Path(path)
        self._clock = clock
        with contextlib.ExitStack() as opened:
            watch = opened.enter_context(contextlib.closing(open_connection(self.path)))
            migrate(watch, self.path)
            self._wakes = opened.enter_context(contextlib.closing(Wakes(self.path)))
            self._writer = opened.enter_context(
                contextlib.closing(WriterThread(self.path, "tenure-writer", self._wakes.committed))
            )
            self._reader = ConnectionThread(self.path, "tenure-reader")
            opened.pop_all()
        self._watch: sqlite3.Connection | None = watch
        self._watch_lock = use_of(watch)
        self._idle = True

    def check(self) -> None:
        self._writer.door.check()

    async def now(self) -> datetime:
        self.check()
        return self._clock()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self._writer.call(
            lambda db: Insert(db, self._clock()).run(submissions, all_or_nothing=all_or_nothing)
        )

    async def claim(self, want: Want) -> Claimed:
        settled: list[Task] = []
        while True:
            taken = await self._take(want)
            settled += taken.settled
            self._idle = taken.found is None
            if taken.found is None:
                return Claimed([], settled, taken.next_due)
            tasks = await read(taken.found, want, taken.now)
            if tasks is None:
                # One that cannot be read takes no other with it, and hides none.
                found, now = taken.found, taken.now
                tasks = await self._writer.call(lambda db: read_one_by_one(db, found, want, now))  # noqa: B023
            if tasks:
                return Claimed(tasks, settled, None)

    async def _take(self, want: Want) -> Taken:
        def work(db: sqlite3.Connection, swap: Swap = swap) -> Taken:
            return take(db, want, self._clock(), swap)

        try:
            # Idle workers read, and so never hold up busy ones; a busy one would only read twice.
            return await (self._writer.call_lazily(work) if self._idle else self._writer.call(work))
        except Misfit:
            return await self._writer.call(lambda db: work(db, swap_each))

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        try:
            return await self._writer.call(lambda db: swap(db, changes))
        except Misfit:
            return await self._writer.call(lambda db: swap_each(db, changes))

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        return await self._writer.call(lambda db: renew(db, renewals, self._clock()))

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        return await self._writer.call(lambda db: prune(db, ended_before, now, limit))

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        return await self._writer.call(lambda db: forget(db, tasks, now))

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await self._reader.call(lambda db: dump(db, cursor, limit))

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        return await self._writer.call(lambda db: restore(db, piece, now))

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        return await self._reader.call(lambda db: [reservation(db, record.identity) for record in wanted])

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return await self._reader.call(lambda db: [get(db, task_id) for task_id in ids])

    async def find(self, query: Query) -> Page:
        return await self._reader.call(lambda db: find(db, query))

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        tasks, _ = await self._reader.call(lambda db: overdue(db, now, limit, only))
        return tasks

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await self._reader.call(lambda db: count_overdue(db, now, limit, only, since))

    async def running_since(self) -> datetime | None:
        return await self._reader.call(running_since)

    async def count(self) -> list[Count]:
        rows = await self._reader.call(lambda db: db.execute(statement("counts")).fetchall())
        return [Count(queue, type_, TaskStatus(status), count) for queue, type_, status, count in rows]

    async def due(self, now: datetime) -> list[Due]:
        moment = {"now": to_micros(now)}
        rows = await self._reader.call(lambda db: db.execute(statement("first_due"), moment).fetchall())
        return [Due(queue, type_, from_micros(since)) for queue, type_, since in rows]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        return await self._writer.call(lambda db: put_note(db, note, if_version, self._clock()))

    async def notes(self, kind: str) -> list[Note]:
        return await self._reader.call(lambda db: notes(db, kind))

    async def about(self) -> dict[str, str]:
        return await self._reader.call(lambda db: about(db, self.path))

    def mark(self) -> object:
        """SQLite's own count of commits by others; the watching connection never writes, so everyone is another."""
        if self._writer.door.is_shut:
            return None
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
            if left <= 0 or await self._wakes.sleep(left):
                return

    async def close(self) -> None:
        if not self._writer.door.is_elsewhere:
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._reader.close()
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
        self._wakes.close()
