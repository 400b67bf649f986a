"""The store contract: a dumb, fast, batch-first record keeper with compare-and-swap.

A store knows no rule of the contract. It keeps records, finds them by what is indexed, and
replaces one version by the next if nobody was faster. What the next version is, `lifecycle`
says; what a key's record means, `idempotency` says.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from operator import itemgetter
from typing import Any

import msgspec

from tenure import lifecycle
from tenure.errors import IdempotencyConflict, InvalidInput
from tenure.idempotency import Reservation
from tenure.lifecycle import Pending
from tenure.payload import NULL
from tenure.submission import Submission
from tenure.task import Progress, Task, TaskStatus
from tenure.times import Moment, from_text

PAGES = 10
"""How many pages a store looks at that has no index for what is asked."""
PAUSE, WORKER = "pause", "worker"
"""Kinds of notes that the library itself keeps."""


class Want(msgspec.Struct, frozen=True):
    """What a worker can take now: how many, of which queues and types, for how long.

    `types` maps each type to the limit of its retry policy (None: no policy, no second attempt).
    """

    worker_id: str
    queues: tuple[str, ...]
    types: Mapping[str, int | None]
    count: int
    lease: timedelta


class Claimed(msgspec.Struct, frozen=True):
    """The claimed tasks in order, what time did to others on the way, and when the next one is due.

    `unsure` says that the answer to an earlier claim was lost: tasks may be held in the worker's name without its
    knowing.
    """

    tasks: Sequence[Task] = ()
    overdue: Sequence[Task] = ()
    next_due: datetime | None = None
    unsure: bool = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """Put `after` in the place of `before`, if that is still the stored version.

    A renewal makes no new version. So a change that rests on the end of a lease asks with
    `if_unrenewed` that the lease is still the one of `before`.
    """

    before: Task
    after: Task
    if_unrenewed: bool = False


class Renewal(msgspec.Struct, frozen=True):
    """A longer lease for a claim, counted from now, with what its handler last reported."""

    task_id: str
    fence: int
    lease: timedelta
    progress: Progress | None = None


class Hold(Enum):
    """What a renewal found."""

    Held = "held"
    CancelRequested = "cancel requested"
    Lost = "lost"


class Query(msgspec.Struct, frozen=True):
    """Which tasks to find. Every filter applies before the limit.

    Ended tasks come latest end first, all others latest submit first; `oldest` turns that
    round. `cursor` is the last page's; it stays valid while tasks come and go.
    """

    status: TaskStatus | None = None
    type: str | None = None
    queue: str | None = None
    tag: str | None = None
    worker_id: str | None = None
    cancel_requested: bool = False
    ordering_key: str | None = None
    created_before: datetime | None = None
    available_by: datetime | None = None
    available_after: datetime | None = None
    min_attempts: int = 0
    oldest: bool = False
    limit: int = 100
    cursor: str | None = None


class Page(msgspec.Struct, frozen=True):
    """Found tasks, and where to go on; no cursor means that was all."""

    tasks: list[Task]
    cursor: str | None = None


class Count(msgspec.Struct, frozen=True):
    """How many tasks of one queue, type and status there are."""

    queue: str
    type: str
    status: TaskStatus
    count: int


class Due(msgspec.Struct, frozen=True):
    """Since when the first task of one queue and type has been due."""

    queue: str
    type: str
    since: datetime


class Note(msgspec.Struct, frozen=True):
    """A small named record beside the tasks: a pause, a worker's sign of life."""

    kind: str
    key: str
    value: dict[str, Any] = {}
    updated_at: Moment | None = None
    version: int = 0


class Piece(msgspec.Struct, frozen=True):
    """A part of everything that a store keeps, to be put into another one.

    `damaged` are the ids of records that cannot be read; no cursor means that was all.
    """

    tasks: list[Task] = []
    stones: list[Task] = []
    reservations: list[Reservation] = []
    damaged: list[str] = []
    cursor: str | None = None


class Concern(msgspec.Struct, frozen=True):
    """Something about a store that an operator should know, and what to do about it."""

    name: str
    text: str
    fix: str
    is_problem: bool = False


class Transaction(ABC):
    """An open transaction in which a handler writes, and in which its task ends."""

    connection: Any
    """The driver's own connection, for the handler's statements."""

    @abstractmethod
    async def commit(self, task_id: str, rule: Callable[[Task, datetime], Task]) -> Task:
        """End the task by the rule and commit everything together; when the rule refuses, undo everything."""

    @abstractmethod
    async def rollback(self) -> None:
        """Undo everything. It never fails."""


_ONLY_POSTGRES = (
    "this store keeps tasks where no other data are, so there is no transaction to share. "
    "A PostgreSQL store has that: connect('postgresql://…')."
)


class Store(ABC):
    """One place where tasks are kept. Every call is atomic and durable when it returns.

    A call that raises `StoreUnavailable` may or may not have taken effect; each can be made
    again without harm.
    """

    name: str = ""
    """What a part of a store is called."""

    size_limit: int = 1_000_000
    """The most bytes of JSON that an input may have."""
    poll: float = 1.0
    """Seconds after which an idle worker looks for tasks by itself; longer where each look is paid for."""
    sweep_interval: float = 5.0
    """Seconds between two sweeps of a worker."""
    prune_interval: float = 0.0
    """Seconds for which a worker that found nothing to forget does not look again; longer where each look is paid for."""

    async def open(self) -> None:  # noqa: B027 - most stores have nothing to do here
        """Set up what is not there yet. `connect` calls it once, before anything else."""

    @abstractmethod
    async def now(self) -> datetime:
        """The store's time, in UTC: the only clock that decides anything."""

    @abstractmethod
    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        """Insert what is absent, in order, together with its reservation; answer with the task that stands there.

        A task that was there already has `created=False`. With `all_or_nothing` the first
        conflict is raised and nothing is inserted.
        """

    @abstractmethod
    async def claim(self, want: Want) -> Claimed:
        """Claim due tasks: highest priority first, then due first, then submitted first; at most one per ordering key.

        Lapsed claims and passed deadlines that the search meets are settled on the way.
        """

    @abstractmethod
    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        """Replace versions; False where another change was faster.

        A task that goes on running keeps the lease and the progress of a renewal that came between.
        """

    @abstractmethod
    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        """Extend leases that are still held by the given fence; a lease is never made shorter."""

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """The tasks with these ids, in that order."""

    @abstractmethod
    async def find(self, query: Query) -> Page:
        """One page of tasks."""

    @abstractmethod
    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        """Running tasks whose lease has run out and pending ones past their deadline, or those of one status; longest overdue first."""

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        """How many of each type `overdue` would find of this status; with `since`, without those that already were at that time.

        It counts up to `limit` in all, and takes little memory however large the records are.
        """
        look = limit
        while True:
            found = await self.overdue(now, look, only)
            types = [task.type for task in found if lifecycle.became_overdue(task, since, now)]
            if len(types) >= limit or len(found) < look:
                return Counter(types[:limit])
            # Those that are overdue already stand in front.
            look *= 2

    @abstractmethod
    async def count(self) -> list[Count]:
        """How many tasks there are; it costs the same however many."""

    async def running_since(self) -> datetime | None:
        """When the attempt began that has run longest; None when nothing runs."""
        began: list[datetime] = []
        query = Query(status=TaskStatus.Running, oldest=True, limit=1000)
        # As a rule, no more run than the workers can hold.
        for _ in range(PAGES):
            page = await self.find(query)
            began += [task.started_at for task in page.tasks if task.started_at is not None]
            if page.cursor is None:
                break
            query = msgspec.structs.replace(query, cursor=page.cursor)
        return min(began, default=None)

    async def due(self, now: datetime) -> list[Due]:
        """For each queue and type in which something is due: since when it has been.

        A task that waits for another one of its key need not count. Where an index leads there, it costs the same however many tasks there are.
        """
        found: list[Due] = []
        query = Query(status=TaskStatus.Pending, available_by=now, oldest=True, limit=1000)
        for _ in range(PAGES):
            page = await self.find(query)
            found += [Due(task.queue, task.type, task.available_at) for task in page.tasks]
            if page.cursor is None:
                break
            query = msgspec.structs.replace(query, cursor=page.cursor)
        return first_of_each(found)

    @abstractmethod
    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        """Forget up to `limit` ended tasks and outdated reservations; say how many.

        A task with `remember_until` in the future leaves a stone behind, so that a repeated
        submit still finds it.
        """

    @abstractmethod
    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        """Delete these versions of ended tasks, with stones as in `prune`; False where another change was faster."""

    @abstractmethod
    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        """The next piece of everything: tasks in submit order, then stones, then reservations."""

    @abstractmethod
    async def restore(self, piece: Piece, now: datetime) -> Piece:
        """Put in what is absent, exactly as it is and in this order; answer with what stands there already."""

    @abstractmethod
    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        """The stored records of the keys that these are for, in that order, whatever has become of their tasks."""

    @abstractmethod
    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        """Write a note, if its version is still this one (0: if absent); a note without a value is deleted."""

    @abstractmethod
    async def notes(self, kind: str) -> list[Note]:
        """All notes of a kind, by key."""

    @abstractmethod
    def mark(self) -> object:
        """A mark of how much has been written so far, for `wait`."""

    @abstractmethod
    async def wait(self, mark: object, timeout: float) -> None:
        """Return when something was written since the mark, or after `timeout` seconds. It may return early."""

    async def insert_within(
        self,
        connection: Any,
        submissions: Sequence[Submission],  # noqa: ARG002 - for the store that has it
        *,
        all_or_nothing: bool = False,  # noqa: ARG002
    ) -> list[Task | IdempotencyConflict]:
        """`insert`, as a part of the user's own transaction on this connection."""
        msg = f"connection={connection!r}: {_ONLY_POSTGRES}"
        raise InvalidInput(msg)

    async def begin(self) -> Transaction:
        """A transaction for a handler's own writes and the end of its task."""
        msg = f"context.transaction(): {_ONLY_POSTGRES}"
        raise InvalidInput(msg)

    def check(self) -> None:  # noqa: B027 - most stores have nothing to do here
        """Raise `StoreClosed` when this handle was closed or this process is a fork: no call will ever succeed here."""

    async def about(self) -> dict[str, str]:
        """What an operator may want to know about this store: versions, places, sizes."""
        return {}

    def parts(self) -> Sequence[Store]:
        """The stores that this one is made of, each with its own clock and its own bad days. Most are one."""
        return (self,)

    def part_of(self, task: Task) -> Store:  # noqa: ARG002 - for the store that has parts
        """The part that keeps this task: its time is the one that counts for it, and its trouble."""
        return self

    async def concerns(self) -> list[Concern]:
        """What about this store's own settings is, or may become, a trouble."""
        return []

    def twin(self) -> Store:
        """A handle on the same store for the event loop of another thread."""
        return self

    @abstractmethod
    async def close(self) -> None:
        """Let go of files and connections: every later call raises `StoreClosed`. Closing twice is fine.

        In a forked child nothing is let go of, because all of it is the parent's.
        """


def first_of_each(found: Iterable[Due]) -> list[Due]:
    """The earliest of each queue and type, in their order."""
    earliest: dict[tuple[str, str], Due] = {}
    for due in found:
        place = due.queue, due.type
        if place not in earliest or due.since < earliest[place].since:
            earliest[place] = due
    return [due for _, due in sorted(earliest.items(), key=itemgetter(0))]


def paused_queues(pauses: Sequence[Note], now: datetime) -> set[str]:
    """The queues that nobody may claim from at this time."""
    return {note.key for note in pauses if _is_paused(note.value.get("until"), now)}


def _is_paused(until: Any, now: datetime) -> bool:
    try:
        return until is None or now < from_text(until)
    except (TypeError, InvalidInput):
        # Somebody has paused it; until when cannot be read.
        return True


AT_ONCE = 100
"""How many tasks are made before others on the event loop have their turn."""


async def claimed(tasks: Sequence[Task], want: Want, now: datetime) -> list[Task]:
    """These tasks as the worker has them now. A thousand take milliseconds, and handlers wait on the same loop."""
    made: list[Task] = []
    for start in range(0, len(tasks), AT_ONCE):
        if start:
            await asyncio.sleep(0)
        made += [
            lifecycle.claim(task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type])
            for task in tasks[start : start + AT_ONCE]
        ]
    return made


def can_claim(task: Task, want: Want, now: datetime) -> bool:
    """Whether a record says what the search for it was told: one that was harmed may say anything."""
    return (
        task.status is Pending
        and task.type in want.types
        and task.available_at <= now
        and (task.expires_at is None or now < task.expires_at)
    )


def remembered(task: Task, now: datetime) -> Task | None:
    """The stone of a pruned task: who it was and how it ended, without what it carried."""
    if task.remember_until is None or now >= task.remember_until:
        return None
    return msgspec.structs.replace(
        task, input_json=NULL, output_json=NULL, traceback=None, headers={}, history=task.history[-1:]
    )
