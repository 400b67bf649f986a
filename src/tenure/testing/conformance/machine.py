"""Random commands to a store and to the memory store, side by side: every answer must be the same.

For a store of your own:

    class MyMachine(StoreMachine):
        def open_store(self, clock):
            return MyStore(..., clock=clock)

    TestMyMachine = MyMachine.TestCase
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from tenure.errors import TenureError
from tenure.queue import Queue
from tenure.stores.base import Note, Query, Renewal, Store, Want
from tenure.stores.memory import MemoryStore
from tenure.submission import Submission, build
from tenure.survey import QueueStats
from tenure.sweeper import Sweeper
from tenure.task import ENDED, OPEN, Progress, Task, TaskStatus
from tenure.testing.checker import check
from tenure.testing.clock import FakeClock
from tenure.testing.conformance import steps
from tenure.words import STATUS_WORDS

TYPES, QUEUES, KEYS = ["a", "b"], ["default", "mail"], ["k1", "k2"]
FAR = datetime(2100, 1, 1, tzinfo=UTC)
SECONDS = st.sampled_from([0, 0.000_001, 1, 5, 30, 100])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


submits = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES), "input": st.integers(0, 2) | st.just({"☕": [None, 10**20]})},
    optional={
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(-1, 1),
        "delay": SECONDS,
        "ttl": SECONDS,
        "ordering_key": st.sampled_from(KEYS),
        "tags": st.lists(st.sampled_from(["x", "y"]), max_size=2),
        "max_attempts": st.integers(0, 3),
        "max_reschedules": st.integers(0, 1),
    },
)
identities = st.sampled_from(
    [
        {},
        {},
        {"task_id": "mine"},
        {"task_id": "yours"},
        {"idempotency_key": "k"},
        {"idempotency_key": "k", "idempotency_ttl": 5},
        {"idempotency_key": "k", "idempotency_scope": "queue"},
        {"idempotency_key": "k", "idempotency_scope": "mine", "idempotency_ttl": None},
        {"idempotency_key": "k", "task_id": "mine"},
        {"slot": ("daily", "2026-01-28")},
        {"slot": ("daily", "2026-01-28"), "idempotency_ttl": 5},
    ]
)
queries = st.fixed_dictionaries(
    {"limit": st.integers(1, 4)},
    optional={
        "status": st.sampled_from(list(TaskStatus)),
        "type": st.sampled_from(TYPES),
        "queue": st.sampled_from(QUEUES),
        "tag": st.sampled_from(["x", "y"]),
        "worker_id": st.sampled_from(["w1", "w2"]),
        "ordering_key": st.sampled_from(KEYS),
        "cancel_requested": st.booleans(),
        "min_attempts": st.integers(0, 2),
        "oldest": st.booleans(),
    },
)


class StoreMachine(RuleBasedStateMachine):
    """Holds the two stores on one clock; each rule gives both the same command."""

    tasks = Bundle("tasks")
    claims = Bundle("claims")
    listings = Bundle("listings")

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.runner = asyncio.Runner()
        self.runner.get_loop()
        self.store = self.open_store(self.clock)
        self.model = MemoryStore(self.clock)
        self.answer: Any = None
        self.held: dict[tuple[str, int], Task] = {}

    @abstractmethod
    def open_store(self, clock: FakeClock) -> Store:
        """A new, empty store on this clock."""

    def teardown(self) -> None:
        try:
            stored = self.run(steps.everything(self.store, page=1000))
            assert check(stored, one_task_per_key=False) == []
        finally:
            self.run(self.store.close())
            self.runner.close()

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    def both(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """The one answer of both stores, or the one refusal."""
        answers = [self.run(_answer(call(store))) for store in (self.store, self.model)]
        assert _alike(answers[0]) == _alike(answers[1])
        self.answer, answer = answers
        return None if isinstance(answer, _Refusal) else answer

    @rule(target=tasks, submit=submits, identity=identities)
    def submit(self, submit: dict[str, Any], identity: dict[str, Any]) -> Any:
        answers = self.insert([{**submit, **identity}])
        return answers[0].id if answers and isinstance(answers[0], Task) else multiple()

    @rule(target=tasks, batch=st.lists(st.tuples(submits, identities), min_size=2, max_size=4), whole=st.booleans())
    def submit_many(self, batch: list[tuple[dict[str, Any], dict[str, Any]]], whole: bool) -> Any:
        answers = self.insert([{**submit, **identity} for submit, identity in batch], all_or_nothing=whole)
        return multiple(*(answer.id for answer in answers or [] if isinstance(answer, Task)))

    def moment(self) -> datetime:
        """When a task is submitted."""
        return self.clock()

    def insert(self, batch: list[dict[str, Any]], **how: bool) -> Any:
        submissions = []
        for words in batch:
            options = {name: value for name, value in words.items() if name not in ("type", "input")}
            submissions.append(build(words["type"], words["input"], options, self.moment(), 1000))  # type: ignore[arg-type]
        if any(self.left_an_outdated_stone(submission) for submission in submissions):
            # Whether such a stone gives way to the new task, or is left for the next prune, is each store's business,
            # and so is in how many places it is kept.
            for store in (self.store, self.model):
                self.run(store.prune({}, self.clock(), 1000))

        async def insert(store: Store) -> Any:
            answers = await store.insert(submissions, **how)
            return [answer if isinstance(answer, Task) else _Refusal.of(answer) for answer in answers]

        return self.both(insert)

    def left_an_outdated_stone(self, submission: Submission) -> bool:
        """Whether a forgotten task had the id that this one will get, and its time is over."""
        model, wanted = self.model, submission.reservation
        found = wanted and model._reservations.get(wanted.identity)  # noqa: SLF001 - the model is an open book
        names = {submission.task.id, *([found.task_id] if found else [])}
        return any(name in model._stones and model._known(name) is None for name in names)  # noqa: SLF001

    @rule(
        target=claims,
        worker=st.sampled_from(["w1", "w2"]),
        types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=2, unique=True),
        count=st.integers(0, 3),
        limit=maybe(st.integers(0, 3)),
        lease=st.sampled_from([1, 30]),
    )
    def claim(self, worker: str, types: list[str], queues: list[str], count: int, limit: int | None, lease: int) -> Any:
        seconds = timedelta(seconds=lease)
        want = steps.want(count, by=worker, types=types, queues=queues, limit=limit, lease=seconds)
        held, own = self.claim_both(want)
        self.held |= {(model.id, model.fence): mine for model, mine in zip(held, own, strict=True)}
        return multiple(*held)

    def claim_both(self, want: Want) -> tuple[list[Task], list[Task]]:
        """The tasks that the model gives out, and the same ones of the store."""

        async def claim(store: Store) -> Any:
            answer = await store.claim(want)
            # When something is due, when the next thing is due need not be known.
            return list(answer.tasks), list(answer.overdue), answer.next_due if not answer.tasks else None

        held, _, _ = self.both(claim)
        return held, self.answer[0]

    def own(self, store: Store, held: Task) -> Task:
        """The task as this store has given it out: each has fences of its own."""
        return held if store is self.model else self.held[held.id, held.fence]

    @rule(held=claims, output=st.sampled_from([None, {"n": 1}]))
    def complete(self, held: Task, output: Any) -> None:
        self.both(lambda store: steps.complete(store, self.own(store, held), output))

    @rule(held=claims, permanent=st.booleans())
    def fail(self, held: Task, permanent: bool) -> None:
        self.both(lambda store: steps.fail(store, self.own(store, held), permanent=permanent))

    @rule(held=claims)
    def release(self, held: Task) -> None:
        self.both(lambda store: steps.release(store, self.own(store, held)))

    @rule(held=claims)
    def stop(self, held: Task) -> None:
        self.both(lambda store: steps.stop(store, self.own(store, held)))

    @rule(held=claims, delay=SECONDS, extend=SECONDS)
    def reschedule(self, held: Task, delay: float, extend: float) -> None:
        self.both(lambda store: steps.reschedule(store, self.own(store, held), delay, extend))

    @rule(
        held=st.lists(claims, min_size=1, max_size=3),
        lease=SECONDS,
        progress=maybe(st.builds(Progress, st.integers(0, 3))),
    )
    def renew(self, held: list[Task], lease: float, progress: Progress | None) -> None:
        def renewals(store: Store) -> list[Renewal]:
            fences = [(task.id, self.own(store, task).fence) for task in held]
            return [Renewal(*fence, timedelta(seconds=lease), progress) for fence in fences]

        self.both(lambda store: store.renew(renewals(store)))

    @rule(task=tasks, reason=maybe(st.just("why")), by=maybe(st.just("ada")))
    def cancel(self, task: str, reason: str | None, by: str | None) -> None:
        self.both(lambda store: Queue(store).cancel(task, reason, by))

    @rule(task=tasks, keep=st.booleans())
    def retry(self, task: str, keep: bool) -> None:
        self.both(lambda store: Queue(store).retry(task, keep_attempts=keep))

    @rule(task=tasks)
    def mark_expired(self, task: str) -> None:
        self.both(lambda store: Queue(store).mark_expired(task))

    @rule(task=tasks)
    def archive(self, task: str) -> None:
        self.both(lambda store: Queue(store).archive(task))

    @rule(task=tasks)
    def forget(self, task: str) -> None:
        async def forget(store: Store) -> list[bool]:
            return await store.forget([await steps.read(store, task)], self.clock())

        self.both(forget)

    @rule(seconds=SECONDS)
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(days=st.sampled_from([7, 31]))
    def let_days_pass(self, days: int) -> None:
        self.clock.advance(timedelta(days=days))

    @rule(
        task=tasks,
        boundary=st.sampled_from(["available_at", "expires_at", "lease_expires_at", "remember_until"]),
        shift=st.sampled_from([-steps.MICROSECOND, timedelta(0), steps.MICROSECOND]),
    )
    def go_to_a_boundary(self, task: str, boundary: str, shift: timedelta) -> None:
        (stored,) = self.run(self.model.get([task]))
        moment = stored and getattr(stored, boundary)
        assume(moment is not None and self.clock() < moment < FAR)
        self.clock.set(moment + shift)

    @rule()
    def sweep(self) -> None:
        self.both(lambda store: Sweeper(store).sweep())

    @rule(
        limit=st.integers(0, 4),
        only=maybe(st.sampled_from([TaskStatus.Running, TaskStatus.Pending])),
        ahead=st.sampled_from([0, 20]),
    )
    def look_for_the_overdue(self, limit: int, only: TaskStatus | None, ahead: float) -> None:
        moment = self.clock() + timedelta(seconds=ahead)
        self.both(lambda store: store.overdue(moment, limit, only))

    @rule(
        only=st.sampled_from([TaskStatus.Running, TaskStatus.Pending]),
        since=maybe(st.sampled_from([0, 5])),
        ahead=st.sampled_from([0, 20]),
    )
    def count_the_overdue(self, only: TaskStatus, since: float | None, ahead: float) -> None:
        now = self.clock()
        moment = None if since is None else now + timedelta(seconds=since)
        self.both(lambda store: store.count_overdue(now + timedelta(seconds=ahead), 1000, only, moment))

    @rule(status=st.sampled_from(ENDED), age=SECONDS, limit=st.sampled_from([1, 2, 1000]))
    def prune_one_status(self, status: TaskStatus, age: float, limit: int) -> None:
        moment = self.clock() - timedelta(seconds=age)
        ended = sorted(
            task.ended_at
            for task in self.model._tasks.values()  # noqa: SLF001 - the model is an open book
            if task.status is status and task.ended_at is not None and task.ended_at <= moment
        )
        # Of those that ended at the same moment, each store may begin with another one.
        while limit < len(ended) and ended[limit - 1] == ended[limit]:
            limit += 1
        self.both(lambda store: store.prune({status: moment}, self.clock(), limit))
        # Which outdated records go first is nobody's business, as long as none of the others stays to make a difference.
        self.both(lambda store: store.prune({}, self.clock(), 1000))

    @rule()
    def prune_everything(self) -> None:
        self.both(lambda store: store.prune(dict.fromkeys(ENDED, self.clock()), self.clock(), 1000))

    @rule(queue=st.sampled_from(QUEUES), resume_after=maybe(SECONDS))
    def pause(self, queue: str, resume_after: float | None) -> None:
        self.both(lambda store: Queue(store).pause(queue, "why", resume_after=resume_after))
        self.both(lambda store: Queue(store).paused())

    @rule(queue=st.sampled_from(QUEUES))
    def resume(self, queue: str) -> None:
        self.both(lambda store: Queue(store).resume(queue))

    @rule(key=st.sampled_from(KEYS), value=st.sampled_from([{}, {"n": 1}, {"n": 2}]), version=maybe(st.integers(0, 2)))
    def put_note(self, key: str, value: dict[str, Any], version: int | None) -> None:
        self.both(lambda store: store.put_note(Note("kind", key, value), if_version=version))
        self.both(lambda store: store.notes("kind"))

    @rule(target=listings, query=queries)
    def begin_a_listing(self, query: dict[str, Any]) -> Any:
        return self.turn_a_page(Query(**query), Query(**query))

    @rule(target=listings, listing=consumes(listings))
    def go_on_with_a_listing(self, listing: tuple[Query, Query]) -> Any:
        return self.turn_a_page(*listing)

    def turn_a_page(self, query: Query, model_query: Query) -> Any:
        """Cursors are each store's own; what stands on the pages is not."""
        page, expected = self.run(self.store.find(query)), self.run(self.model.find(model_query))
        assert _alike(page.tasks) == _alike(expected.tasks)
        assert (page.cursor is None) == (expected.cursor is None)
        if page.cursor is None:
            return multiple()
        replace = msgspec.structs.replace
        return replace(query, cursor=page.cursor), replace(model_query, cursor=expected.cursor)

    @rule(
        word=st.sampled_from(STATUS_WORDS),
        filters=st.sampled_from([{}, {"type": "a"}, {"tag": "x"}, {"older_than": 5}]),
    )
    def list_by_a_word(self, word: str, filters: dict[str, Any]) -> None:
        async def listed(store: Store) -> list[Task]:
            return (await Queue(store).list(word, **filters)).tasks

        self.both(listed)

    @rule(task=tasks)
    def explain(self, task: str) -> None:
        self.both(lambda store: Queue(store).explain(task))

    @rule()
    def look_at_the_stats(self) -> None:
        self.both(lambda store: Queue(store).stats())

    @rule(task=tasks)
    def look_at_one(self, task: str) -> None:
        self.both(lambda store: store.get([task]))

    @invariant()
    def everything_is_the_same(self) -> None:
        stored = self.both(lambda store: steps.everything(store, page=1000))
        self.both(lambda store: store.count())
        keys = [task.ordering_key for task in stored if task.status is TaskStatus.Running and task.ordering_key]
        assert len(keys) == len(set(keys)), "two tasks of one ordering key run"
        assert all(task.ended_at is None for task in stored if task.status in OPEN)


class _Refusal(msgspec.Struct, frozen=True):
    kind: str
    text: str

    @classmethod
    def of(cls, error: TenureError) -> _Refusal:
        return cls(type(error).__name__, re.sub(r"fence \d+", "fence …", str(error)))


def _alike(answer: Any) -> Any:
    if isinstance(answer, Task):
        return steps.alike(answer)
    if isinstance(answer, QueueStats):
        # A task that waits for another one of its key counts here or not (see `Store.due`).
        return msgspec.structs.replace(answer, oldest_pending_seconds=None)
    return [_alike(each) for each in answer] if isinstance(answer, list | tuple) else answer


async def _answer(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except TenureError as error:
        return _Refusal.of(error)


StoreMachine.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
