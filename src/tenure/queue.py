"""The client: what producers and operators call."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

import msgspec

from tenure import arguments, lifecycle, times
from tenure.batching import Batcher
from tenure.changing import TRIES, Changing, Outcome, Rule
from tenure.errors import (
    CannotPurge,
    ConcurrentChange,
    DamagedRecord,
    IdempotencyConflict,
    InvalidInput,
    ResultTimeout,
    StoreClosed,
    StoreUnavailable,
    TaskNotFound,
    TaskUnsuccessful,
    TenureError,
)
from tenure.explain import how_it_ended, why_not_running
from tenure.observe.events import Events, Subscriber, check_subscriber
from tenure.observe.timing import TimedStore, timed
from tenure.stores import open_store, separated
from tenure.stores.base import PAUSE, Note, Page, Query, Store
from tenure.submission import Form, Submission, SubmitOptions, check_batch, with_own
from tenure.survey import QueueStats, WorkerInfo, paused, survey, workers
from tenure.task import Event, Task, TaskStatus
from tenure.words import narrowed

DEFAULT_URL = "sqlite:///tenure.db"
CLOCK_TOLERANCE = timedelta(milliseconds=10)
"""Clocks of two parts of a store that differ by less count as one."""

BREATH = 1000
"""Tasks of a batch after which others of the event loop get their turn."""

LISTED_LIMIT = 1_000_000_000
"""More tasks than one page can hold, and a number that every store can count to."""

Answer = Task | IdempotencyConflict | DamagedRecord
"""What comes of a submission."""


class CancelResult(NamedTuple):
    """What became of a cancel of many."""

    cancelled: list[Task]
    refused: dict[str, TenureError]


class Queue:
    """A connection to a store, with everything a producer or an operator does.

    Made by `connect`. One object serves any number of tasks of one event loop at once:
    submits that happen together share one commit.
    """

    def __init__(self, store: Store, url: str = "") -> None:
        self.store = store
        self.url = url
        self.events = Events()
        self._submits: dict[Store, Batcher[Submission, Answer]] = {
            part: Batcher(self._insert, size=lambda submission: submission.size) for part in store.parts()
        }

    # -- producers

    async def submit(
        self,
        type: str,  # noqa: A002 - the contract's names
        input: Any = None,  # noqa: A002
        *,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> Task:
        """Submit one task; when this returns, it is durable.

        A repeat (same key, slot or id) returns the task that is there, with `created=False`.
        With `connection`, on a PostgreSQL store, it is a part of the transaction that is open there:
        nobody sees the task before that commits, and it is gone when that is rolled back.
        """
        if not self.events.submit_watchers:
            return await self._submit(type, input, connection, options)
        with self.events.submitting(options, [type]) as submitted:
            submitted.append(await self._submit(type, input, connection, options))
        return submitted[0]

    enqueue = submit

    async def _submit(self, type: str, input: Any, connection: Any, options: SubmitOptions) -> Task:  # noqa: A002
        submission = Form.read(options, await self.store.now()).fill(type, input, self.store.size_limit)
        if len(self._submits) > 1:
            submission = await self._timed(submission, options)
        if connection is None:
            answer = await self._submits[self.store.part_of(submission.task)](submission)
        else:
            (answer,) = await self._insert_within(connection, [submission])
        if not isinstance(answer, Task):
            raise answer
        return answer

    async def submit_many(
        self,
        tasks: Iterable[tuple[str, Any] | tuple[str, Any, SubmitOptions]],
        *,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Task]:
        """Submit a batch: all or nothing where the store has transactions.

        Each task is `(type, input)` or `(type, input, {its own options})`; options given as
        keywords hold for all of them. `connection` is as in `submit`.
        """
        if not isinstance(tasks, Iterable):
            msg = f"tasks={arguments.shown(tasks)} must be a list of (type, input) or (type, input, options)."  # type: ignore[unreachable]
            raise InvalidInput(msg)
        # As they are now: others have their turns before all of them are checked.
        tasks = list(tasks)
        if not self.events.submit_watchers:
            return await self._submit_many(tasks, connection, options)
        types = [str(task[0]) if isinstance(task, tuple | list) and task else "" for task in tasks]
        with self.events.submitting(options, types) as submitted:
            submitted.extend(await self._submit_many(tasks, connection, options))
        return submitted

    async def _submit_many(self, tasks: Iterable[Any], connection: Any, options: SubmitOptions) -> list[Task]:
        now = await self.store.now()
        common = Form.read(options, now)
        submissions = []
        for number, task in enumerate(tasks):
            if number and number % BREATH == 0:
                await asyncio.sleep(0)
            if not isinstance(task, (tuple, list)) or len(task) not in (2, 3):
                msg = f"submit_many takes (type, input) or (type, input, options) for each task, not {arguments.shown(task)}."
                raise InvalidInput(msg)
            form = common if len(task) == 2 else Form.read(with_own(options, task[2]), now)
            submission = form.fill(task[0], task[1], self.store.size_limit)
            if len(self._submits) > 1:
                submission = await self._timed(submission, form.options)
            submissions.append(submission)
        if not submissions:
            return []
        check_batch(submissions)
        if connection is None:
            answers = await self._insert(submissions, all_or_nothing=True)
        else:
            answers = await self._insert_within(connection, submissions, all_or_nothing=True)
        return [answer for answer in answers if isinstance(answer, Task)]

    async def _timed(self, submission: Submission, options: SubmitOptions) -> Submission:
        """The submission by the time of that part of the store which will keep the task."""
        task = submission.task
        now = await self.store.part_of(task).now()
        if abs(now - task.created_at) < CLOCK_TOLERANCE:
            return submission
        return Form.read(options, now).fill_json(task.type, task.input_json, self.store.size_limit).under(task.id)

    async def _insert(self, submissions: list[Submission], **how: Any) -> Sequence[Answer]:
        try:
            answers: Sequence[Answer] = await self.store.insert(submissions, **how)
        except StoreUnavailable:
            self.events.in_doubt((submission.task for submission in submissions), self.store)
            raise
        except DamagedRecord as damage:
            if how:
                raise
            return await self._insert_alone(submissions, damage)
        if self.events.subscribers:
            self.events.submitted(answers)
        return answers

    async def _insert_alone(self, submissions: list[Submission], damage: DamagedRecord) -> Sequence[Answer]:
        """The key or id of one leads to a record that cannot be read; only its own producer shall hear of that."""
        if len(submissions) == 1:
            return [damage]
        return [answer for submission in submissions for answer in await self._insert([submission])]

    async def _insert_within(self, connection: Any, submissions: list[Submission], **how: Any) -> Sequence[Answer]:
        answers = await self.store.insert_within(connection, submissions, **how)
        # Whether they are there is known when the user's own transaction has been committed.
        self.events.in_doubt((answer for answer in answers if isinstance(answer, Task) and answer.created), self.store)
        return answers

    # -- reading

    async def now(self) -> datetime:
        """The store's time, in UTC."""
        return await self.store.now()

    async def get(self, task_id: str) -> Task | None:
        """The task with this id, or None."""
        (task,) = await self.store.get([arguments.name("task_id", task_id)])
        return task

    async def list(
        self,
        status: TaskStatus | str | None = None,
        *,
        type: str | None = None,  # noqa: A002 - the contract's names
        queue: str | None = None,
        tag: str | None = None,
        worker: str | None = None,
        older_than: float | timedelta | None = None,
        error_contains: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """One page of tasks, latest first; filters apply before the limit.

        `status` takes every word of the contract: also `scheduled`, `retrying`, `ready`, `dlq`, `in_progress`…
        `worker` finds what that worker runs at this moment; who ran a task before is in its history.
        """
        optional = arguments.optional
        now = await self.store.now()
        query = Query(
            type=optional(arguments.name, "type", type),
            queue=optional(arguments.name, "queue", queue),
            tag=optional(arguments.name, "tag", tag),
            worker_id=optional(arguments.text, "worker", worker),
            created_before=None if older_than is None else times.before(now, times.seconds(older_than, "older_than")),
            limit=arguments.count("limit", limit, LISTED_LIMIT),
            cursor=optional(arguments.words, "cursor", cursor),
        )
        error_contains = optional(arguments.words, "error_contains", error_contains)
        if status is not None:
            query = narrowed(query, status, now)
        if limit == 0:
            return Page([])
        if error_contains is None:
            return await self.store.find(query)
        return await self._find_error(query, error_contains)

    async def scan(self, status: TaskStatus | str | None = None, **filters: Any) -> AsyncIterator[Task]:
        """Every task that passes the filters of `list`, page by page."""
        cursor = None
        while True:
            page = await self.list(status, **filters, limit=1000, cursor=cursor)
            for task in page.tasks:
                yield task
            if (cursor := page.cursor) is None:
                return

    async def _find_error(self, query: Query, text: str) -> Page:
        """Errors are not indexed: read page by page until enough have been found."""
        found: list[Task] = []
        limit = query.limit
        while True:
            # Never more than are still wanted: what a page holds too many of, the cursor would skip.
            page = await self.store.find(msgspec.structs.replace(query, limit=limit - len(found)))
            found += [task for task in page.tasks if text in (task.last_error or "")]
            if page.cursor is None or len(found) == limit:
                return Page(found, page.cursor)
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def history(self, task_id: str) -> tuple[Event, ...]:
        """Every transition of a task, oldest first."""
        return (await self._existing(task_id)).history

    async def explain(self, task_id: str) -> str:
        """Why the task is not running, in a sentence."""
        task = await self._existing(task_id)
        now = await self.store.now()
        return why_not_running(
            task,
            now,
            handled=any(task.queue in worker.queues and task.type in worker.types for worker in await self.workers()),
            paused=(await paused(self.store, now)).get(task.queue),
            waits_for=await self._waits_for(task),
        )

    async def _waits_for(self, task: Task) -> str | None:
        """The id of the open task of the same key that was submitted last before this one."""
        if task.ordering_key is None or task.status is not TaskStatus.Pending:
            return None
        for status in (TaskStatus.Running, TaskStatus.Pending):
            query = Query(status=status, ordering_key=task.ordering_key, limit=100)
            passed = status is TaskStatus.Running
            while True:
                page = await self.store.find(query)
                for other in page.tasks:
                    if passed and other.id != task.id:
                        return other.id
                    passed = passed or other.id == task.id
                if page.cursor is None:
                    break
                query = msgspec.structs.replace(query, cursor=page.cursor)
        return None

    async def result(self, task_id: str, timeout: float | timedelta | None = None) -> Any:
        """Wait for the end of a task and return its output."""
        loop = asyncio.get_running_loop()
        patience = None if timeout is None else times.seconds(timeout, "timeout").total_seconds()
        deadline = None if patience is None else loop.time() + patience
        while True:
            mark = self.store.mark()
            task = await self._existing(task_id)
            if task.completed_at is not None and task.status.ended:
                return task.output
            if task.status.ended:
                raise TaskUnsuccessful(task_id, *how_it_ended(task))
            left = 1.0 if deadline is None else min(1.0, deadline - loop.time())
            if left <= 0:
                raise ResultTimeout(task_id, task.status, patience or 0)
            await self.store.wait(mark, left)

    # -- operators

    async def cancel(self, task_id: str, reason: str | None = None, by: str | None = None) -> Task:
        """Cancel a pending task at once, or ask a running one to stop. Cancelling twice is fine."""
        return await self._change(task_id, _cancellation(reason, by))

    async def cancel_many(self, ids: Iterable[str], reason: str | None = None, by: str | None = None) -> CancelResult:
        """Cancel each of these; what could not be cancelled is in `refused`, with the reason."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            msg = f"ids={arguments.shown(ids)} must be a list of ids of tasks."
            raise InvalidInput(msg)
        wanted = [arguments.name(f"ids[{number}]", task_id) for number, task_id in enumerate(ids)]
        outcomes = await self._change_many(wanted, _cancellation(reason, by))
        cancelled = [outcome for task_id in wanted if isinstance(outcome := outcomes[task_id], Task)]
        refused = {task_id: outcome for task_id, outcome in outcomes.items() if isinstance(outcome, TenureError)}
        return CancelResult(cancelled, refused)

    async def cancel_by_type(self, type: str, reason: str | None = None, by: str | None = None) -> CancelResult:  # noqa: A002
        """Cancel every pending and running task of a type."""
        ids: dict[str, None] = {}
        for status in (TaskStatus.Pending, TaskStatus.Running):
            cursor = None
            while True:
                page = await self.list(status, type=type, limit=1000, cursor=cursor)
                ids |= dict.fromkeys(task.id for task in page.tasks)
                if (cursor := page.cursor) is None:
                    break
        return await self.cancel_many(ids, reason, by)

    async def retry(self, task_id: str, *, keep_attempts: bool = False, by: str | None = None) -> Task:
        """Give a failed or cancelled task another life."""
        arguments.optional(arguments.words, "by", by)
        return await self._change(
            task_id, lambda task, now: lifecycle.retry(task, now, keep_attempts=keep_attempts, by=by)
        )

    replay = retry
    requeue = retry

    async def mark_expired(self, task_id: str) -> Task:
        """Expire a pending task now."""
        return await self._change(task_id, lifecycle.expire)

    async def archive(self, task_id: str) -> Task:
        """Put an ended task away; it stays readable."""
        return await self._change(task_id, lifecycle.archive)

    async def purge(self, task_id: str, *, only: TaskStatus | str | None = None) -> Task:
        """Forget an ended task for good, if it is of the status `only`; returns what it was."""
        for _ in range(TRIES):
            task = await self._existing(task_id)
            if not task.status.ended or (only is not None and task.status != only):
                raise CannotPurge(task_id, task.status, f"Only {only or 'ended'} tasks are purged here.")
            (done,) = await self.store.forget([task], await self.store.part_of(task).now())
            if done:
                return task
        raise ConcurrentChange(task_id)

    async def pause(
        self, queue: str = "default", reason: str = "", *, by: str = "", resume_after: float | timedelta | None = None
    ) -> None:
        """No worker claims from this queue until it is resumed; what runs, runs on."""
        queue = arguments.name("queue", queue)
        value = {"reason": arguments.words("reason", reason), "by": arguments.words("by", by)}
        until = None
        if resume_after is not None:
            duration = times.seconds(resume_after, "resume_after")
            until = times.to_text(times.after(await self.store.now(), duration, "resume_after"))
        await self.store.put_note(Note(PAUSE, queue, {**value, "until": until}))

    async def resume(self, queue: str = "default") -> None:
        """Let workers claim from this queue again."""
        await self.store.put_note(Note(PAUSE, arguments.name("queue", queue)))

    async def paused(self) -> dict[str, str]:
        """The paused queues and why."""
        return await paused(self.store, await self.store.now())

    # -- figures

    async def counts(self, queue: str | None = None) -> dict[TaskStatus, int]:
        """How many tasks there are of each status."""
        queue = arguments.optional(arguments.name, "queue", queue)
        counts = dict.fromkeys(TaskStatus, 0)
        for lane in await self.store.count():
            if queue is None or lane.queue == queue:
                counts[lane.status] += lane.count
        return counts

    async def stats(self) -> QueueStats:
        """Depths, ages, workers and pauses at this moment."""
        return (await survey(self.store)).stats()

    async def throughput(self, window: float | timedelta = 60.0) -> dict[TaskStatus, float]:
        """How many tasks ended per second of late, by how they ended.

        It looks at the latest endings within the window, and at no more than a thousand of each kind.
        """
        span = times.seconds(window, "window").total_seconds()
        now = await self.store.now()
        rates = {}
        for status in (TaskStatus.Completed, TaskStatus.Failed, TaskStatus.Cancelled, TaskStatus.Expired):
            page = await self.store.find(Query(status=status, limit=1000))
            ages = [(now - task.ended_at).total_seconds() for task in page.tasks if task.ended_at is not None]
            recent = [age for age in ages if age < span]
            full = page.cursor is not None and len(recent) == len(ages)
            rates[status] = len(recent) / max(recent[-1] if full else span, 0.001) if recent else 0.0
        return rates

    async def workers(self, *, gone: bool = False) -> Sequence[WorkerInfo]:
        """The workers that are alive; with `gone`, also those that fell silent."""
        found = await workers(self.store, await self.store.now())
        return [worker for worker in found if worker.alive or gone]

    # -- life of the connection

    def observe(self, *subscribers: Subscriber) -> Self:
        """Tell these what happens here, from now on: `queue.observe(Logging(), Prometheus())`."""
        for subscriber in subscribers:
            check_subscriber(subscriber)
        for subscriber in subscribers:
            self.events.subscribe(subscriber)
        if self.events.store_watchers and not isinstance(self.store, TimedStore):
            self.store = timed(self.store, self.events)
        return self

    async def close(self) -> None:
        """Wait for submits under way, then let go of the store."""
        with contextlib.suppress(StoreClosed):
            self.store.check()
            await asyncio.gather(*(submits.drain() for submits in self._submits.values()))
            if self.events.subscribers:
                await self.events.finish(self.store)
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _existing(self, task_id: str) -> Task:
        task = await self.get(task_id)
        if task is None:
            raise TaskNotFound(task_id)
        return task

    async def _change(self, task_id: str, rule: Rule) -> Task:
        (outcome,) = (await self._change_many([arguments.name("task_id", task_id)], rule)).values()
        if isinstance(outcome, TenureError):
            raise outcome
        return outcome

    async def _change_many(self, ids: Sequence[str], rule: Rule) -> dict[str, Outcome]:
        return await Changing(self.store, self.events, rule).change(ids)


def _cancellation(reason: str | None, by: str | None) -> Rule:
    """The rule of a cancel, in these words."""
    reason = arguments.optional(arguments.words, "reason", reason)
    by = arguments.optional(arguments.words, "by", by)
    return lambda task, now: lifecycle.cancel(task, now, reason, by)


class connect(Awaitable[Queue]):  # noqa: N801 - reads as a function: `await connect(url)` or `async with connect(url)`
    """Connect to a store: `queue = await connect(url)` or `async with connect(url) as queue`.

    Without an address, `$TENURE_URL` or else the file `tenure.db` of this folder. Several addresses, as a list or
    with blanks between them, are one queue: see `docs/stores/sharded.md`.
    """

    def __init__(self, url: str | Sequence[str] | None = None, *, clock: Callable[[], datetime] | None = None) -> None:
        self._url = url or os.environ.get("TENURE_URL") or DEFAULT_URL
        self._clock = clock
        self._queue: Queue | None = None

    async def _open(self) -> Queue:
        store = await asyncio.to_thread(open_store, self._url, self._clock)
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        self._queue = Queue(store, " ".join(separated(self._url)))
        return self._queue

    def __await__(self) -> Generator[Any, None, Queue]:
        return self._open().__await__()

    async def __aenter__(self) -> Queue:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._queue is not None:
            await self._queue.close()
