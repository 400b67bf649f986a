"""A store that fails on purpose, the same way every time it is given the same seed and plan."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from tenure.errors import IdempotencyConflict, InvalidInput, StoreUnavailable, one_of
from tenure.idempotency import Reservation
from tenure.stores.base import (
    Change,
    Claimed,
    Concern,
    Count,
    Due,
    Hold,
    Note,
    Page,
    Piece,
    Query,
    Renewal,
    Store,
    Transaction,
    Want,
)
from tenure.submission import Submission
from tenure.task import Task, TaskStatus

T = TypeVar("T")

EVERY_METHOD = "*"
METHODS = (
    "now", "insert", "claim", "swap", "renew", "get", "find", "overdue", "count_overdue", "running_since", "count", "due", "prune", "forget",
    "dump", "restore", "reserved", "put_note", "notes", "wait",
)  # fmt: skip


class FaultKind(StrEnum):
    """What goes wrong with a call."""

    Before = "before"
    """It never reaches the store."""
    After = "after"
    """It takes effect, and its answer is lost."""
    Delay = "delay"
    """It comes late."""


class Fault(msgspec.Struct, frozen=True):
    """One line of a plan: which calls, and what goes wrong with them.

    `method` is a method of the store or `*` for all of them. `nth` picks calls by their number,
    from 1, counted per method; without it every call is meant. `probability` makes each of
    these calls a throw of the dice. `seconds` is how long a delay lasts; zero only lets
    everything else go first.

    >>> Fault("claim", "after", nth=3)
    Fault(method='claim', kind='after', nth=3, probability=1.0, seconds=0.0)
    """

    method: str
    kind: str
    nth: int | Container[int] | None = None
    probability: float = 1.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.method not in (EVERY_METHOD, *METHODS):
            raise InvalidInput(one_of("method of a store", self.method, (EVERY_METHOD, *METHODS)))
        if self.kind not in list(FaultKind):
            raise InvalidInput(one_of("kind of fault", self.kind, list(FaultKind)))

    def hits(self, method: str, number: int) -> bool:
        """Whether this line means the call; the dice are thrown apart from that."""
        if self.method not in (EVERY_METHOD, method):
            return False
        return self.nth is None or (number == self.nth if isinstance(self.nth, int) else number in self.nth)


FaultPlan = Sequence[Fault]


class Injected(msgspec.Struct, frozen=True):
    """A fault that happened: the `number`th call of `method`."""

    method: str
    number: int
    kind: FaultKind


class FaultyStore(Store):
    """Wraps any store and lets its calls fail, come late, or lose their answers, as a plan says.

    Whether a call is hit depends only on the seed, the plan, the method and the number of the
    call, never on what other methods or threads do meanwhile. `injected` lists what happened;
    `heal()` ends all trouble.
    """

    def __init__(self, store: Store, seed: int = 0, plan: FaultPlan = ()) -> None:
        self.store = store
        self.size_limit, self.poll = store.size_limit, store.poll
        self.sweep_interval, self.prune_interval = store.sweep_interval, store.prune_interval
        self._trouble = _Trouble(seed, tuple(plan))

    @property
    def injected(self) -> list[Injected]:
        """Every fault so far, in the order in which they happened."""
        return list(self._trouble.injected)

    @property
    def calls(self) -> dict[str, int]:
        """How often each method was called."""
        return dict(self._trouble.calls)

    def heal(self) -> None:
        """From now on everything works."""
        self._trouble.over = True

    async def now(self) -> datetime:  # noqa: D102 - the store contract documents its methods once
        return await self._call("now", self.store.now)

    async def insert(  # noqa: D102
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self._call("insert", lambda: self.store.insert(submissions, all_or_nothing=all_or_nothing))

    async def claim(self, want: Want) -> Claimed:  # noqa: D102
        return await self._call("claim", lambda: self.store.claim(want))

    async def swap(self, changes: Sequence[Change]) -> list[bool]:  # noqa: D102
        return await self._call("swap", lambda: self.store.swap(changes))

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:  # noqa: D102
        return await self._call("renew", lambda: self.store.renew(renewals))

    async def get(self, ids: Sequence[str]) -> list[Task | None]:  # noqa: D102
        return await self._call("get", lambda: self.store.get(ids))

    async def find(self, query: Query) -> Page:  # noqa: D102
        return await self._call("find", lambda: self.store.find(query))

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:  # noqa: D102
        return await self._call("overdue", lambda: self.store.overdue(now, limit, only))

    async def count_overdue(  # noqa: D102
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await self._call("count_overdue", lambda: self.store.count_overdue(now, limit, only, since))

    async def running_since(self) -> datetime | None:  # noqa: D102
        return await self._call("running_since", self.store.running_since)

    async def count(self) -> list[Count]:  # noqa: D102
        return await self._call("count", self.store.count)

    async def due(self, now: datetime) -> list[Due]:  # noqa: D102
        return await self._call("due", lambda: self.store.due(now))

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:  # noqa: D102
        return await self._call("prune", lambda: self.store.prune(ended_before, now, limit))

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:  # noqa: D102
        return await self._call("forget", lambda: self.store.forget(tasks, now))

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:  # noqa: D102
        return await self._call("dump", lambda: self.store.dump(cursor, limit))

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:  # noqa: D102
        return await self._call("reserved", lambda: self.store.reserved(wanted))

    async def restore(self, piece: Piece, now: datetime) -> Piece:  # noqa: D102
        return await self._call("restore", lambda: self.store.restore(piece, now))

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:  # noqa: D102
        return await self._call("put_note", lambda: self.store.put_note(note, if_version=if_version))

    async def notes(self, kind: str) -> list[Note]:  # noqa: D102
        return await self._call("notes", lambda: self.store.notes(kind))

    async def open(self) -> None:
        """Opening always works."""
        await self.store.open()

    async def insert_within(  # noqa: D102
        self, connection: Any, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        return await self.store.insert_within(connection, submissions, all_or_nothing=all_or_nothing)

    async def begin(self) -> Transaction:
        """The transaction of a handler is the wrapped store's own."""
        return await self.store.begin()

    def mark(self) -> object:
        """A mark is local knowledge: nothing can go wrong with it."""
        return self.store.mark()

    async def wait(self, mark: object, timeout: float) -> None:  # noqa: D102
        await self._call("wait", lambda: self.store.wait(mark, timeout))

    async def about(self) -> dict[str, str]:
        """What the wrapped store says of itself."""
        return await self.store.about()

    async def concerns(self) -> list[Concern]:
        """What the wrapped store is concerned about."""
        return await self.store.concerns()

    def check(self) -> None:
        """The wrapped store knows whether it is closed."""
        self.store.check()

    def twin(self) -> Store:
        """A twin of the wrapped store, in the same trouble: calls of both are counted together."""
        twin = self.store.twin()
        if twin is self.store:
            return self
        faulty = FaultyStore(twin)
        faulty._trouble = self._trouble
        return faulty

    async def close(self) -> None:
        """Closing always works."""
        await self.store.close()

    async def _call(self, method: str, call: Callable[[], Awaitable[T]]) -> T:
        number, kinds, delay = self._trouble.next(method)
        if FaultKind.Delay in kinds:
            await asyncio.sleep(delay)
        if FaultKind.Before in kinds:
            msg = f"Call {number} of {method} was not made, as planned."
            raise StoreUnavailable(msg)
        answer = await call()
        if FaultKind.After in kinds:
            msg = f"The answer to call {number} of {method} was lost, as planned."
            raise StoreUnavailable(msg)
        return answer


class _Trouble:
    """The plan, the counts and the record, shared by a store and its twins in other threads."""

    def __init__(self, seed: int, plan: tuple[Fault, ...]) -> None:
        self.seed, self.plan = seed, plan
        self.calls: Counter[str] = Counter()
        self.injected: list[Injected] = []
        self.over = False
        self._lock = threading.Lock()

    def next(self, method: str) -> tuple[int, set[str], float]:
        """The number of this call, what happens to it, and for how long it is delayed."""
        with self._lock:
            self.calls[method] += 1
            number = self.calls[method]
            hits = (
                [] if self.over else [fault for line, fault in enumerate(self.plan) if self._hits(line, method, number)]
            )
            kinds = {fault.kind for fault in hits}
            self.injected += [Injected(method, number, kind) for kind in FaultKind if kind in kinds]
            return number, kinds, max((fault.seconds for fault in hits), default=0.0)

    def _hits(self, line: int, method: str, number: int) -> bool:
        fault = self.plan[line]
        if not fault.hits(method, number):
            return False
        # Each throw has dice of its own, so that no other call can change it.
        dice = random.Random(f"{self.seed}/{line}/{method}/{number}")  # noqa: S311 - reproducible on purpose
        return dice.random() < fault.probability
