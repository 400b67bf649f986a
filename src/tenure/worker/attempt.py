"""One execution of one task: run the handler, and turn whatever happens into the rule that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
import pydantic

from tenure import lifecycle, payload
from tenure.errors import InvalidInput, LeaseLost, RescheduleError
from tenure.lifecycle import Failure, took_effect
from tenure.observe.events import Completed, Failed, Interrupted, TaskEvent, kind_of, latest
from tenure.retry import RetryPolicy
from tenure.stores.base import Transaction
from tenure.task import Task
from tenure.worker import surroundings
from tenure.worker.context import Context
from tenure.worker.executors import Executors, failure_of, not_json, refusal
from tenure.worker.handlers import Handler

Rule = Callable[["Attempt", Task, datetime], Task]
"""How an attempt ends: what it makes of its task as that is now."""
Next = Callable[[], Awaitable[Any]]
Middleware = Callable[[Context, Next], Awaitable[Any]]


class Stop(Enum):
    """Why a handler was interrupted."""

    Timeout = "timed out"
    Cancel = "cancelled"
    Shutdown = "shut down"
    Lost = "lease lost"


class Attempt(msgspec.Struct, eq=False):
    """A claimed task on its way through this worker."""

    task: Task
    """The task as it was claimed."""
    handler: Handler
    policy: RetryPolicy | None
    held_until: float
    """The moment of this process's own clock up to which the lease holds for certain."""
    claimed_at: float
    begun: bool = False
    context: Context | None = None
    """What its handler sees, for as long as it runs; that of a failed one is kept for those who want to know why."""
    running: asyncio.Task[None] | None = None
    stopped: Stop | None = None
    error: BaseException | None = None
    reason: str = "permanent"
    """Why it failed, in one word, for those who count."""
    seconds: float | None = None
    """How long the handler took, if anybody wants to know."""
    output: msgspec.Raw = payload.NULL
    succeeded: bool = False
    """Whether the handler has returned what can be stored. From then on nothing interrupts it."""
    over: bool = False
    """Whether the handler has ended in whatever way, and it is known how the attempt ends: there is nothing left to interrupt."""
    rule: Rule | None = None
    """How it ends, once that is known."""
    latest: Task | None = None
    """The task as it was last seen, while its end is being written."""
    sent: Task | None = None
    """What its end has made of the task, if the store was told."""
    settled: bool = False

    @property
    def timeout(self) -> float | None:
        """The task's own word, else the handler's."""
        return self.handler.timeout if self.task.timeout is None else self.task.timeout

    @property
    def raised(self) -> BaseException | None:
        """What its handler has raised, or what has stopped it."""
        if self.error is None and self.stopped is not None and not self.succeeded:
            return Interrupted(self.stopped.value)
        return self.error

    def held_for(self, lease: timedelta, since: float) -> None:
        """The lease was renewed by a call that was sent at `since`."""
        self.held_until = max(self.held_until, since + lease.total_seconds())

    def extended(self, lease: timedelta) -> None:
        """The handler itself has just renewed the lease."""
        self.held_for(lease, surroundings.monotonic())

    def interrupt(self, why: Stop) -> None:
        """Stop the handler. The first reason counts, but a request to cancel gives way to what cannot wait."""
        if self.over:
            return
        if self.stopped is None or (self.stopped is Stop.Cancel and why is not Stop.Cancel):
            self.stopped = why
            # What has not begun looks for itself: asyncio drops a coroutine that is cancelled before its first step.
            if self.running is not None and self.begun and not self.succeeded:
                self.running.cancel()

    def end(self, task: Task, now: datetime) -> Task:
        """What its end makes of the task."""
        assert self.rule is not None
        return self.rule(self, task, now)

    def event(self, task: Task) -> TaskEvent:
        """What its end has made of the task."""
        if task.status is lifecycle.Completed:
            return Completed(task, self.seconds)
        if kind_of(task) is Failed:
            return Failed(task, self.reason, self.error, self.seconds, self.context)
        return latest(task)

    async def run(
        self, context: Context, executors: Executors, middleware: list[Middleware], run_is_cancelled: Callable[[], bool]
    ) -> Rule | None:
        """Run the handler and say how the attempt ends; None if the task is no longer ours to end."""
        try:
            argument = self.handler.read(self.task.input_json)
        except (pydantic.ValidationError, msgspec.MsgspecError) as error:
            self.error = error
            words = f"the input does not fit {self.task.type!r}: {refusal(error)}"
            return self._failed(Failure(words, permanent=True), "input")
        except Exception as error:
            # A validator that fails has refused nothing: it may have been mended by the next attempt.
            self.error = error
            return self._failed(failure_of(error))
        try:
            if not middleware and self.handler.executor == "async":
                arguments = (argument, context) if self.handler.takes_context else (argument,)
                return self._completed(await self.handler.function(*arguments), context)
            return self._completed(await self._call(argument, context, executors, middleware), context)
        except RescheduleError as again:
            return self._rescheduled(again)
        except asyncio.CancelledError as error:
            if self.stopped is None and run_is_cancelled():
                # The loop is coming to an end, and cancels everything on it at once.
                self.stopped = Stop.Shutdown
            return self._interrupted(error)
        except (KeyboardInterrupt, GeneratorExit):
            # Not the handler's: the process or its loop comes to an end.
            raise
        except BaseException as error:
            self.error = error
            return self._failed(failure_of(error))

    async def _call(self, argument: Any, context: Context, executors: Executors, middleware: list[Middleware]) -> Any:
        arguments = (argument, context) if self.handler.takes_context else (argument,)

        def innermost() -> Awaitable[Any]:
            if self.handler.executor == "async":
                return self.handler.function(*arguments)  # type: ignore[no-any-return]
            if self.handler.executor == "process":
                return executors.call_in_process(self.handler, self.task.input_json)
            return self._on_thread(executors, arguments)

        call: Next = innermost
        for layer in reversed(middleware):
            call = _layered(layer, context, call)
        return await call()

    async def _on_thread(self, executors: Executors, arguments: tuple[Any, ...]) -> Any:
        """A thread cannot be interrupted: a cancelled one is asked and waited for, any other is left behind."""
        call = executors.call_on_thread(self.handler, arguments)
        while True:
            try:
                return await asyncio.shield(call)
            except asyncio.CancelledError:
                if call.done() or self.stopped is Stop.Cancel:
                    continue
                executors.abandon(call)
                raise

    def _completed(self, value: Any, context: Context) -> Rule:
        try:
            output = payload.output_json(value)
        except InvalidInput as error:
            self.error = error
            return self._failed(not_json(error))
        if output is not payload.NULL and (size := payload.size(output)) > (limit := context.queue.store.size_limit):
            msg = f"the output has {size} bytes of JSON; this store takes up to {limit}. Keep it elsewhere and return a reference."
            self.error = InvalidInput(msg)
            return self._failed(Failure(msg, permanent=True))
        self.output, self.succeeded = output, True
        return _complete

    async def end_within(self, transaction: Transaction, rule: Rule | None) -> Rule | Task | None:
        """The handler's own writes and the end of its task commit together, or the writes are undone.

        Returns the ended task, or the rule that ends the attempt otherwise.
        """
        if rule is None or not self.succeeded:
            # The writes are gone in any case: what is not rolled back is never committed. But the attempt has to end.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await transaction.rollback()
            return rule
        sent: list[Task] = []

        def remembered(task: Task, now: datetime) -> Task:
            sent.append(rule(self, task, now))
            return sent[-1]

        try:
            return await transaction.commit(self.task.id, remembered)
        except LeaseLost as lost:
            return _refused(lost)
        except asyncio.CancelledError as error:
            # It was interrupted by what its own handler did last, or its loop comes to an end.
            otherwise = self._interrupted(error)
        except Exception as error:
            self.error = error
            otherwise = self._failed(failure_of(error))
        if otherwise is None:
            return None
        # The answer to the commit was lost, not necessarily the commit: then the task tells.
        return lambda attempt, task, now: (
            task if sent and took_effect(sent[-1], task) else otherwise(attempt, task, now)
        )

    def _failed(self, failure: Failure, reason: str | None = None) -> Rule:
        self.reason = reason or ("permanent" if failure.permanent else "error")
        roll = random.random()  # noqa: S311 - jitter
        return lambda attempt, task, now: lifecycle.fail(task, attempt.task.fence, failure, attempt.policy, now, roll)

    def _rescheduled(self, again: RescheduleError) -> Rule:
        return lambda attempt, task, now: lifecycle.reschedule(
            task, attempt.task.fence, now, again.delay_seconds, again.extend_expiration_seconds
        )

    def _interrupted(self, error: asyncio.CancelledError) -> Rule | None:
        if self.stopped is Stop.Lost:
            return None
        if self.stopped is Stop.Cancel:
            return _stop
        if self.stopped is Stop.Shutdown:
            return released("its worker was shut down")
        if self.stopped is Stop.Timeout:
            return self.timed_out()
        self.error = error
        return self._failed(failure_of(error))

    def timed_out(self) -> Rule:
        """It took longer than it may."""
        self.error = TimeoutError(f"timed out after {self.timeout:g} s")
        return self._failed(Failure(f"TimeoutError: {self.error}"), "timeout")


def released(why: str) -> Rule:
    """The task is given back."""
    return lambda attempt, task, now: lifecycle.release(task, attempt.task.fence, now, why)


def _complete(attempt: Attempt, task: Task, now: datetime) -> Task:
    return lifecycle.complete(task, attempt.task.fence, attempt.output, now)


def _stop(attempt: Attempt, task: Task, now: datetime) -> Task:
    return lifecycle.stop(task, attempt.task.fence, now)


def _refused(lost: LeaseLost) -> Rule:
    def refuse(attempt: Attempt, task: Task, now: datetime) -> Task:  # noqa: ARG001 - the shape of a rule
        raise lost

    return refuse


def _layered(layer: Middleware, context: Context, call: Next) -> Next:
    return lambda: layer(context, call)
