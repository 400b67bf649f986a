"""Tasks in dictionaries: for tests, and the model that every other store is compared with.

It does what the contract says in the plainest way there is, by looking at everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from tenure import idempotency, lifecycle
from tenure.errors import IdempotencyConflict
from tenure.idempotency import Reservation, Verdict
from tenure.stores.base import (
    PAUSE,
    Change,
    Claimed,
    Count,
    Due,
    Hold,
    Note,
    Page,
    Piece,
    Query,
    Renewal,
    Store,
    Want,
    first_of_each,
    paused_queues,
    remembered,
)
from tenure.stores.cursors import not_of_a_dump, not_of_a_listing
from tenure.stores.door import Door
from tenure.stores.matching import matches
from tenure.submission import Submission
from tenure.task import OPEN, Task, TaskStatus

replace = msgspec.structs.replace
_RANK = re.compile(r"(\S*) \d{20}")


def _machine_time() -> datetime:
    return datetime.now(UTC)


class MemoryStore(Store):
    """Everything is lost with the process."""

    def __init__(self, clock: Callable[[], datetime] = _machine_time) -> None:
        self._clock = clock
        self._door = Door("The queue in memory")
        self._one_at_a_time = threading.RLock()
        self._tasks: dict[str, Task] = {}
        self._order: dict[str, int] = {}
        self._reservations: dict[str, Reservation] = {}
        self._stones: dict[str, Task] = {}
        self._notes: dict[tuple[str, str], Note] = {}
        self._writes = 0
        self._submitted = 0
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def _lock(self) -> threading.RLock:
        self._door.check()
        return self._one_at_a_time

    def check(self) -> None:
        self._door.check()

    async def now(self) -> datetime:
        self._door.check()
        return self._clock()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        with self._lock:
            before = self._tasks.copy(), self._order.copy(), self._reservations.copy(), self._submitted
            answers: list[Task | IdempotencyConflict] = []
            for submission in submissions:
                try:
                    answers.append(self._insert(submission))
                except IdempotencyConflict as conflict:
                    if all_or_nothing:
                        self._tasks, self._order, self._reservations, self._submitted = before
                        raise
                    answers.append(conflict)
            self._written()
            return answers

    def _insert(self, submission: Submission) -> Task:
        task, wanted = submission.task, submission.reservation
        if wanted is not None:
            found = self._reservations.get(wanted.identity)
            if found is not None:
                known = self._known(found.task_id)
                verdict = idempotency.judge(found, wanted, self._clock(), task_known=known is not None)
                if verdict is Verdict.Existing and known is not None:
                    return replace(known, created=False)
                if verdict is Verdict.Finish:
                    task, wanted = replace(task, id=found.task_id), replace(found, state="ready")
            self._reservations[wanted.identity] = wanted
        known = self._known(task.id)
        if known is not None:
            return replace(known, created=False)
        self._submitted += 1
        self._tasks[task.id], self._order[task.id] = task, self._submitted
        return task

    def _known(self, task_id: str) -> Task | None:
        stone = self._stones.get(task_id)
        if stone is not None and remembered(stone, self._clock()) is None:
            stone = None
        return self._tasks.get(task_id) or stone

    async def claim(self, want: Want) -> Claimed:
        with self._lock:
            now = self._clock()
            overdue = [self._put(after) for task in self._overdue(now) if (after := lifecycle.overdue(task, now))]
            waiting = sorted(self._runnable(want, now), key=self._turn)
            claimed = [
                self._put(
                    lifecycle.claim(
                        task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type]
                    )
                )
                for task in [task for task in waiting if task.is_available_at(now)][: want.count]
            ]
            later = [task.available_at for task in waiting if not task.is_available_at(now)]
            if claimed or overdue:
                self._written()
            return Claimed(claimed, overdue, min(later, default=None))

    def _turn(self, task: Task) -> tuple[int, datetime, int]:
        return -task.priority, task.available_at, self._order[task.id]

    def _runnable(self, want: Want, now: datetime) -> Iterator[Task]:
        queues = set(want.queues) - paused_queues(self._list_notes(PAUSE), now)
        heads = self._heads()
        for task in self._tasks.values():
            if task.status is TaskStatus.Pending and task.queue in queues and task.type in want.types:
                head = task.ordering_key is None or heads[task.ordering_key] is task
                if head and not task.is_expired_at(now):
                    yield task

    def _heads(self) -> dict[str, Task]:
        """Per ordering key the task whose turn it is: a running one, else the one submitted first."""
        heads: dict[str, Task] = {}
        for task in sorted(self._tasks.values(), key=lambda task: self._order[task.id]):
            key = task.ordering_key
            if key is not None and task.status in OPEN and (key not in heads or task.status is TaskStatus.Running):
                heads[key] = task
        return heads

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        with self._lock:
            answers = []
            for change in changes:
                stored = self._tasks.get(change.after.id)
                fits = stored is not None and _fits(change, stored)
                if fits and stored is not None:
                    self._put(_with_renewal(change.after, stored))
                answers.append(fits)
            self._written()
            return answers

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        with self._lock:
            return [self._renew(renewal) for renewal in renewals]

    def _renew(self, renewal: Renewal) -> Hold:
        task = self._tasks.get(renewal.task_id)
        if task is None or task.status is not TaskStatus.Running or task.fence != renewal.fence:
            return Hold.Lost
        self._put(
            replace(
                lifecycle.renew(task, renewal.fence, lifecycle.later(self._clock(), renewal.lease)),
                progress=renewal.progress or task.progress,
            )
        )
        return Hold.CancelRequested if task.cancel_requested else Hold.Held

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        with self._lock:
            return [self._tasks.get(task_id) for task_id in ids]

    async def find(self, query: Query) -> Page:
        with self._lock:
            found = sorted((self._rank(task, query), task.id) for task in self._tasks.values() if matches(task, query))
            if query.cursor is not None:
                cursor = _read_cursor(query.cursor, by_end=query.status is not None and query.status.ended)
                found = [entry for entry in found if (entry[0] > cursor if query.oldest else entry[0] < cursor)]
            if not query.oldest:
                found.reverse()
            page = found[: query.limit]
            more = len(found) > len(page)
            return Page([self._tasks[task_id] for _, task_id in page], page[-1][0] if more else None)

    def _rank(self, task: Task, query: Query) -> str:
        ended = query.status is not None and query.status.ended
        moment = task.ended_at.isoformat(timespec="microseconds") if ended and task.ended_at else ""
        return f"{moment} {self._order[task.id]:020}"

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        with self._lock:
            return [task for task in self._overdue(now) if only in (None, task.status)][:limit]

    def _overdue(self, now: datetime) -> list[Task]:
        late = [
            (task.lease_expires_at or task.expires_at or now, self._order[task.id], task)
            for task in self._tasks.values()
            if lifecycle.overdue(task, now)
        ]
        return [task for *_, task in sorted(late, key=lambda entry: entry[:2])]

    async def count(self) -> list[Count]:
        with self._lock:
            counts = Counter((task.queue, task.type, task.status) for task in self._tasks.values())
            return [Count(*lane, count=count) for lane, count in sorted(counts.items())]

    async def due(self, now: datetime) -> list[Due]:
        with self._lock:
            query = Query(status=TaskStatus.Pending, available_by=now)
            waiting = [task for task in self._tasks.values() if matches(task, query)]
        return first_of_each(Due(task.queue, task.type, task.available_at) for task in waiting)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        with self._lock:
            ended = [
                task
                for task in sorted(self._tasks.values(), key=lambda task: task.ended_at or now)
                if task.status in ended_before and task.ended_at and task.ended_at <= ended_before[task.status]
            ][:limit]
            for task in ended:
                self._forget(task, now)
            stale = [key for key, reservation in self._reservations.items() if reservation.is_stale_at(now)][:limit]
            forgotten = [task_id for task_id, stone in self._stones.items() if remembered(stone, now) is None][:limit]
            for key in stale:
                del self._reservations[key]
            for task_id in forgotten:
                del self._stones[task_id]
            return len(ended) + len(stale) + len(forgotten)

    def _forget(self, task: Task, now: datetime) -> None:
        del self._tasks[task.id], self._order[task.id]
        if stone := remembered(task, now):
            self._stones[task.id] = stone

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        with self._lock:
            answers = []
            for task in tasks:
                stored = self._tasks.get(task.id)
                fits = stored is not None and stored.version == task.version and stored.status.ended
                if fits:
                    self._forget(task, now)
                answers.append(fits)
            self._written()
            return answers

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        with self._lock:
            if cursor is not None and not cursor.isdecimal():
                raise not_of_a_dump(cursor)
            start = int(cursor or 0)
            tasks = sorted(self._tasks.values(), key=lambda task: self._order[task.id])
            everything = [*tasks, *self._stones.values(), *self._reservations.values()]
            found = everything[start : start + limit]
            return Piece(
                tasks=[record for record in found if isinstance(record, Task) and record.id in self._tasks],
                stones=[record for record in found if isinstance(record, Task) and record.id not in self._tasks],
                reservations=[record for record in found if isinstance(record, Reservation)],
                cursor=str(start + limit) if start + limit < len(everything) else None,
            )

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        with self._lock:
            there = Piece([], [], [])
            for task in piece.tasks:
                if known := self._known(task.id):
                    there.tasks.append(known)
                else:
                    self._submitted += 1
                    self._tasks[task.id], self._order[task.id] = task, self._submitted
            for stone in piece.stones:
                if known := self._known(stone.id):
                    there.stones.append(known)
                else:
                    self._stones[stone.id] = stone
            for reservation in piece.reservations:
                found = self._reservations.get(reservation.identity)
                if found is not None and not found.is_stale_at(now):
                    there.reservations.append(found)
                else:
                    self._reservations[reservation.identity] = reservation
            self._written()
            return there

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        with self._lock:
            return [self._reservations.get(record.identity) for record in wanted]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        with self._lock:
            found = self._notes.get((note.kind, note.key))
            version = found.version if found else 0
            if if_version is not None and if_version != version:
                return False
            if note.value:
                self._notes[note.kind, note.key] = replace(note, version=version + 1, updated_at=self._clock())
            else:
                self._notes.pop((note.kind, note.key), None)
            self._written()
            return True

    async def notes(self, kind: str) -> list[Note]:
        with self._lock:
            return self._list_notes(kind)

    def _list_notes(self, kind: str) -> list[Note]:
        return [note for _, note in sorted(self._notes.items()) if note.kind == kind]

    def mark(self) -> object:
        return self._writes

    async def wait(self, mark: object, timeout: float) -> None:
        entry = asyncio.get_running_loop(), asyncio.Event()
        if self._door.is_shut:
            return
        with self._one_at_a_time:
            if self._writes != mark:
                return
            self._waiting.add(entry)
        try:
            async with asyncio.timeout(timeout):
                await entry[1].wait()
        except TimeoutError:
            pass
        finally:
            with self._one_at_a_time:
                self._waiting.discard(entry)

    async def close(self) -> None:
        if self._door.shut():
            with self._one_at_a_time:
                self._written()

    def _put(self, task: Task) -> Task:
        self._tasks[task.id] = task
        return task

    def _written(self) -> None:
        self._writes += 1
        for loop, event in self._waiting:
            # A loop that was closed with somebody asleep in it is no reason to fail a write.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)


def _fits(change: Change, stored: Task) -> bool:
    if change.if_unrenewed and stored.lease_expires_at != change.before.lease_expires_at:
        return False
    return stored.version == change.before.version


def _with_renewal(after: Task, stored: Task) -> Task:
    """A task that goes on running keeps what was renewed since the change was computed."""
    if after.status is not TaskStatus.Running or stored.lease_expires_at is None or after.lease_expires_at is None:
        return after
    lease_end = max(after.lease_expires_at, stored.lease_expires_at)
    return replace(after, lease_expires_at=lease_end, progress=stored.progress)


def _read_cursor(cursor: str, *, by_end: bool) -> str:
    found = _RANK.fullmatch(cursor)
    if found is None or bool(found[1]) != by_end:
        raise not_of_a_listing(cursor)
    return cursor
