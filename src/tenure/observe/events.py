"""One stream of typed events: what happened to tasks, told to whoever subscribed.

An event is told when the store has confirmed it, never before. Those of one turn of the event loop are
delivered together. With no subscriber, nothing is made, kept or called: an emitter looks at
`events.subscribers` and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tenure.errors import InvalidInput, TenureError
from tenure.lifecycle import LAPSED
from tenure.observe.complaints import Complaints
from tenure.observe.doubts import Doubts
from tenure.observe.rounds import Rounds
from tenure.task import Task, TaskStatus

if TYPE_CHECKING:
    from tenure.stores.base import Store

log = logging.getLogger("tenure.observe")

LOOK_EVERY, LOOK_PATIENCE = 15.0, 10.0


class Execution(Protocol):
    """What an observer sees of an attempt under way: a worker's `Context`."""

    task: Task
    kept: dict[str, Any] | None


Outcome = Literal["answered", "failed", "cancelled"]

OnEnd = Callable[[BaseException | None], None]
"""Called with what a handler has raised, if it has, or with an `Interrupted`."""


class Interrupted(asyncio.CancelledError):
    """A handler was stopped from outside, and has not failed; the words say why."""


under_way: ContextVar[Execution | None] = ContextVar("tenure_attempt_under_way", default=None)
"""The attempt that a context belongs to. It is set once for all observers, who look here only when somebody asks them."""


def keep(execution: Execution, name: str, what: Any) -> None:
    """Keep something with an attempt, until it has succeeded or its failure is told."""
    if execution.kept is None:
        execution.kept = {}
    execution.kept[name] = what


def kept(execution: Execution | None, name: str) -> Any:
    """What was kept so, or None."""
    return None if execution is None or execution.kept is None else execution.kept.get(name)


class TaskEvent(msgspec.Struct, frozen=True, gc=False):
    """Something happened to a task; `task` is what it is now."""

    task: Task


class Submitted(TaskEvent, frozen=True, gc=False):
    """A new task is in the store. A repeat of a key, a slot or an id is none."""


class Claimed(TaskEvent, frozen=True, gc=False):
    """A worker holds the task."""


class Completed(TaskEvent, frozen=True, gc=False):
    """The task is done. `seconds` is what its handler took, where that is known."""

    seconds: float | None = None

    @property
    def late(self) -> bool:
        """Whether the lease had lapsed, and nobody else had claimed the task meanwhile."""
        history = self.task.history
        return len(history) > 1 and history[-2].what == LAPSED


class Failed(TaskEvent, frozen=True, gc=True):
    """An attempt failed. The task is tried again, or it is dead."""

    reason: str = "error"
    """One of `error`, `timeout`, `permanent`, `input` and `lapsed`."""
    error: BaseException | None = None
    seconds: float | None = None
    context: Execution | None = None

    @property
    def dead(self) -> bool:
        """Whether the task will not be tried again."""
        return self.task.status is TaskStatus.Failed

    @property
    def retried(self) -> bool:
        """Whether there will be another attempt."""
        return self.task.status is TaskStatus.Pending


class Lapsed(Failed, frozen=True, gc=True):
    """A lease ran out before its worker finished."""


class Expired(TaskEvent, frozen=True, gc=False):
    """The deadline passed before anyone began."""


class CancelRequested(TaskEvent, frozen=True, gc=False):
    """A running task was asked to stop."""


class Cancelled(TaskEvent, frozen=True, gc=False):
    """The task was cancelled, or stopped when it was asked to."""


class Rescheduled(TaskEvent, frozen=True, gc=False):
    """The handler asked to run again later."""


class Released(TaskEvent, frozen=True, gc=False):
    """A worker gave the task back; no attempt was spent."""


class Requeued(TaskEvent, frozen=True, gc=False):
    """An operator gave an ended task another life."""


class Archived(TaskEvent, frozen=True, gc=False):
    """The task was put away."""


class Lost(TaskEvent, frozen=True, gc=False):
    """A worker had finished, but its claim was no longer its own: nothing was written. `task` is as it was claimed."""


_KINDS: dict[str, type[TaskEvent]] = {
    "created": Submitted,
    "claimed": Claimed,
    "completed": Completed,
    "failed": Failed,
    LAPSED: Lapsed,
    "released": Released,
    "rescheduled": Rescheduled,
    "expired": Expired,
    "cancel requested": CancelRequested,
    "cancelled": Cancelled,
    "stopped": Cancelled,
    "retried": Requeued,
    "archived": Archived,
}


def kind_of(task: Task) -> type[TaskEvent]:
    """What happened last to a task, as its own history tells it."""
    return _KINDS[task.history[-1].what]


def latest(task: Task) -> TaskEvent:
    """The last event of a task, with what the task itself tells of it."""
    kind = kind_of(task)
    return Lapsed(task, LAPSED) if kind is Lapsed else kind(task)


class Subscriber:
    """Told what happens. Override what you want to know; what you raise is logged and harms nobody."""

    def happened(self, events: Sequence[TaskEvent]) -> None:
        """These events, in order. It is called on the event loop: be quick."""

    def submitting(
        self,
        options: dict[str, Any],  # noqa: ARG002 - for those who override it
        types: Sequence[str],  # noqa: ARG002
        tasks: Sequence[Task],  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """A submit of these types begins; its options may be added to. At the end of the context, `tasks` are there."""
        return contextlib.nullcontext()

    def worker_begins(self, queues: Sequence[str], types: Sequence[str]) -> None:
        """A worker is about to take tasks of these. Context variables that are set here are seen by all its handlers, and by nothing else."""

    def attempt_begins(self, context: Execution) -> OnEnd | None:
        """A handler is about to run. Context variables that are set here are seen by it, and by nothing else.

        What is returned is called when the handler has ended; what becomes of its task will be an event.
        """

    def store_called(self, operation: str, seconds: float, outcome: Outcome) -> None:
        """A call of the store took this long until it was answered, or failed, or nobody waited for it any longer."""

    async def look(self, queue: Any) -> None:
        """Now and then, in a worker: a chance to ask the `Queue` for something."""

    async def finish(self) -> None:
        """The queue is about to be closed, and all was told: let go of what is still on its way, within some seconds."""


def check_subscriber(subscriber: object) -> None:
    """Refuse what would not hear anything, before anybody counts on it."""
    if isinstance(subscriber, type):
        msg = f"{subscriber.__qualname__} is a class; write an object of it: {subscriber.__name__}()."
        raise InvalidInput(msg)
    if not isinstance(subscriber, Subscriber):
        msg = f"{subscriber!r} is no subscriber. Derive its class from tenure.observe.Subscriber."
        raise InvalidInput(msg)
    if inspect.iscoroutinefunction(subscriber.happened):
        msg = f"{type(subscriber).__qualname__}.happened is a coroutine, which nobody would wait for. Write a plain method, and be quick in it."
        raise InvalidInput(msg)


class Events:
    """The stream of one queue."""

    def __init__(self) -> None:
        self.subscribers: tuple[Subscriber, ...] = ()
        self.listeners: tuple[Subscriber, ...] = ()
        self.attempt_watchers: tuple[Callable[[Execution], OnEnd | None], ...] = ()
        self.submit_watchers: tuple[Subscriber, ...] = ()
        self.store_watchers: tuple[Subscriber, ...] = ()
        self.doubts = Doubts()
        self.complaints = Complaints()
        self._rounds = Rounds()
        self._waiting: list[TaskEvent] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """From now on, tell this one too."""
        self.subscribers += (subscriber,)
        self.listeners = self.that_override("happened")
        self.attempt_watchers = tuple(each.attempt_begins for each in self.that_override("attempt_begins"))
        self.submit_watchers = self.that_override("submitting")
        self.store_watchers = self.that_override("store_called")

    def that_override(self, method: str) -> tuple[Subscriber, ...]:
        """The subscribers that have this method of their own."""
        return tuple(
            each for each in self.subscribers if getattr(type(each), method) is not getattr(Subscriber, method)
        )

    def emit(self, events: Sequence[TaskEvent]) -> None:
        """Tell these events with the others of this turn of the loop."""
        if events and not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting += events

    def happened(self, tasks: Iterable[Task]) -> None:
        """Tell the last event of each of these tasks."""
        if self.listeners:
            self.emit([latest(task) for task in tasks])

    def claimed(self, tasks: Iterable[Task]) -> None:
        """Tell that a worker holds these tasks."""
        if self.listeners:
            self.emit([Claimed(task) for task in tasks])

    def worker_begins(self, queues: Sequence[str], types: Sequence[str]) -> None:
        """Let those who want to prepare for the attempts of a worker, in the context that they begin with."""
        for subscriber in self.that_override("worker_begins"):
            self.tell(subscriber.worker_begins, queues, types)

    def attempt_begins(self, context: Execution) -> Sequence[OnEnd]:
        """Tell those who want to know that a handler is about to run, and return what is to be called at its end."""
        ends: list[OnEnd] | None = None
        for begins in self.attempt_watchers:
            try:
                end = begins(context)
            except Exception as error:
                self.complaints.add(begins, error)
                continue
            if end is not None:
                ends = [end] if ends is None else [*ends, end]
        return ends or ()

    @contextlib.contextmanager
    def submitting(self, options: Any, types: Sequence[str]) -> Iterator[list[Task]]:
        """Around a submit; the tasks that came of it are to be put into the list."""
        tasks: list[Task] = []
        around: list[AbstractContextManager[None]] = []
        for watcher in self.submit_watchers:
            try:
                context = watcher.submitting(options, types, tasks)
                context.__enter__()
            except Exception as error:
                self.complaints.add(watcher.submitting, error)
            else:
                around.append(context)
        try:
            yield tasks
        finally:
            # They see how the submit ended; what became of it is not theirs to change.
            ended = sys.exc_info()
            for context in reversed(around):
                self.tell(context.__exit__, *ended)

    def submitted(self, answers: Iterable[Task | TenureError]) -> None:
        """Tell of those that were created."""
        if self.listeners:
            self.emit([Submitted(answer) for answer in answers if isinstance(answer, Task) and answer.created])

    def flush(self) -> None:
        """Deliver what waits."""
        events, self._waiting = self._waiting, []
        if events:
            for listener in self.listeners:
                self.tell(listener.happened, events)

    def tell(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Call a subscriber. What it raises is its own trouble."""
        try:
            method(*arguments)
        except Exception as error:
            self.complaints.add(method, error)

    def store_called(self, operation: str, seconds: float, outcome: Outcome) -> None:
        """Tell how long a call of the store took."""
        for watcher in self.store_watchers:
            self.tell(watcher.store_called, operation, seconds, outcome)

    def in_doubt(self, tasks: Iterable[Task], store: Store) -> None:
        """These were sent to the store, and nobody knows yet whether they are there."""
        if self.listeners:
            self.doubts.add(tasks)
            if self.doubts:
                self._rounds.begin(lambda: self._look_after_doubts(store))

    async def resolve(self, store: Store) -> None:
        """Tell of changes whose answers were lost, where the store shows that they took effect. Each is asked for once."""
        await self.doubts.resolve(store, self.happened)

    async def _look_after_doubts(self, store: Store) -> bool | None:
        """Whether most have been resolved, so that it is worth while to look again soon; None when there is no need to."""
        before = len(self.doubts)
        try:
            store.check()
        except TenureError:
            # It never will answer here.
            return None
        await self._looked(self.resolve, store)
        return len(self.doubts) * 2 <= before if self.doubts else None

    async def look(self, queue: Any) -> None:
        """Let the subscribers ask what they want to know, and settle what is in doubt."""
        looks = [subscriber.look for subscriber in self.that_override("look")]
        await asyncio.gather(self._looked(self.resolve, queue.store), *(self._looked(look, queue) for look in looks))

    async def _looked(self, look: Callable[[Any], Awaitable[None]], at: Any) -> None:
        """One look. What becomes of it keeps nobody else from theirs."""
        try:
            async with asyncio.timeout(LOOK_PATIENCE):
                await look(at)
        except (TenureError, TimeoutError) as error:
            log.debug("could not look at the queue: %s", error)
        except Exception:
            log.exception("a subscriber could not look at the queue")

    async def look_now_and_then(self, queue: Any) -> None:
        """Look at once, and then every few seconds, until cancelled."""
        while True:
            await self.look(queue)
            await asyncio.sleep(LOOK_EVERY)

    async def finish(self, store: Store) -> None:
        """The queue is about to be closed: tell the rest."""
        await self._rounds.end()
        with contextlib.suppress(TenureError):
            await self.resolve(store)
        self.flush()
        for subscriber in self.that_override("finish"):
            try:
                await subscriber.finish()
            except Exception as error:
                self.complaints.add(subscriber.finish, error)
