"""The worker as its users see it: settings, handlers, hooks, and running until told to stop."""

from __future__ import annotations

import inspect
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, TypeVar, overload

from tenure import times
from tenure.errors import InvalidHandler, InvalidInput
from tenure.queue import Queue
from tenure.retry import RetryPolicy, within_bounds
from tenure.sweeper import DEFAULT_RETENTION, Retention, Sweeper
from tenure.worker.attempt import Middleware
from tenure.worker.handlers import INHERIT, Executor, Handler, HoldsHandler, made_handler, make_handler, name_of
from tenure.worker.run import Run

log = logging.getLogger("tenure.worker")

DEFAULT_POLICY = RetryPolicy()

F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[..., Awaitable[None] | None]


class Worker:
    """Runs handlers for the tasks of a queue.

    `run()` goes on until it is stopped; `run(until_idle=True)` until nothing is due and nothing
    runs; `run(max_tasks=n)` until it has run n tasks.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        queues: Iterable[str] = ("default",),
        concurrency: int = 32,
        lease: float | timedelta = 30.0,
        retry: RetryPolicy | None = DEFAULT_POLICY,
        worker_id: str | None = None,
        poll: float | timedelta | None = None,
        grace: float | timedelta = 30.0,
        cancel_grace: float | timedelta = 1.0,
        sweep_interval: float | timedelta | None = None,
        retention: Retention = DEFAULT_RETENTION,
        handlers: Iterable[Handler | HoldsHandler] = (),
    ) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            msg = f"concurrency={concurrency!r} must be a whole number, at least 1."
            raise InvalidInput(msg)
        if retry is not None and not isinstance(retry, RetryPolicy):
            msg = f"retry={retry!r} must be a RetryPolicy, or None for a single attempt."  # type: ignore[unreachable]
            raise InvalidInput(msg)
        if retry is not None:
            within_bounds("retry", retry)
        self.queue = queue
        self.queues = _names(queues)
        self.concurrency = concurrency
        self.lease = _positive("lease", lease)
        self.worker_id, self.is_named = _worker_id(worker_id), worker_id is not None
        self.retry = retry
        self.poll = _positive("poll", queue.store.poll if poll is None else poll).total_seconds()
        self.grace = times.seconds(grace, "grace").total_seconds()
        self.cancel_grace = times.seconds(cancel_grace, "cancel_grace").total_seconds()
        sweep_interval = queue.store.sweep_interval if sweep_interval is None else sweep_interval
        self.sweep_interval = _positive("sweep_interval", sweep_interval).total_seconds()
        Sweeper(queue.store, retention)  # A retention that is none is refused here, not when it runs.
        self._retention = retention
        self._handlers: dict[str, Handler] = {}
        for handler in handlers:
            self.add(handler)
        self._middleware: list[Middleware] = []
        self._hooks: dict[str, list[Hook]] = {"startup": [], "shutdown": [], "success": [], "error": []}
        self._run: Run | None = None
        self._stop_first: bool | None = None
        """Whether it was told to stop before it has begun; if so, whether at once."""

    # -- handlers

    @overload
    def task(self, function: F, /) -> F: ...
    @overload
    def task(
        self,
        type: str,
        *,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | None = INHERIT,
        executor: Executor | None = None,
    ) -> Callable[[F], F]: ...
    def task(
        self,
        type: Any,  # noqa: A002 - the contract's names
        *,
        timeout: float | timedelta | None = None,
        retry: RetryPolicy | None = INHERIT,
        executor: Executor | None = None,
    ) -> Any:
        """Register a function for a type: `@worker.task("send_reminder", timeout=30)`.

        As `@worker.task` alone, the type is the name of the function.
        """
        if callable(type):
            return self.register(type)

        def register(function: F) -> F:
            self.add(make_handler(type, function, timeout=timeout, retry=retry, executor=executor))
            return function

        return register

    def register(self, handler: Any, type: str | None = None, **settings: Any) -> Any:  # noqa: A002
        """Register a handler class or function; the type is the given one, or its `job_type`, or its name."""
        self.add(make_handler(type or name_of(handler), handler, **settings))
        return handler

    def add(self, handler: Handler | HoldsHandler) -> None:
        """Register a handler that was made before, or a task of an application."""
        made = made_handler(handler)
        if made.type in self._handlers:
            msg = f"The type {made.type!r} already has a handler. Each type has one."
            raise InvalidHandler(msg)
        self._handlers[made.type] = made

    @property
    def types(self) -> tuple[str, ...]:
        """The types this worker takes."""
        return tuple(self._handlers)

    def middleware(self, layer: Middleware) -> Middleware:
        """Wrap every attempt: `async def layer(context, call_next): …; return await call_next()`."""
        self._middleware.append(layer)
        return layer

    def on_startup(self, hook: Hook) -> Hook:
        """Call `hook()` before the first claim."""
        return self._hook("startup", hook)

    def on_shutdown(self, hook: Hook) -> Hook:
        """Call `hook()` after the last task has been settled."""
        return self._hook("shutdown", hook)

    def on_success(self, hook: Hook) -> Hook:
        """Call `hook(task)` when a completion is durable."""
        return self._hook("success", hook)

    def on_error(self, hook: Hook) -> Hook:
        """Call `hook(task, error)` when a failed attempt is recorded."""
        return self._hook("error", hook)

    def _hook(self, name: str, hook: Hook) -> Hook:
        self._hooks[name].append(hook)
        return hook

    async def call_hooks(self, name: str, *arguments: Any) -> None:
        """Call the hooks of a name; what they raise is logged and harms nobody."""
        for hook in self._hooks[name]:
            try:
                called = hook(*arguments)
                if inspect.isawaitable(called):
                    await called
            except Exception:
                log.exception("the %s hook %r failed", name, hook)

    def has_hooks(self, name: str) -> bool:
        """Whether anybody wants to be called."""
        return bool(self._hooks[name])

    # -- running

    def run(self, *, until_idle: bool = False, max_tasks: int | None = None) -> Coroutine[Any, Any, int]:
        """Work, and return the number of attempts that were ended here.

        From this call on it can be told to stop, also before whoever awaits it has let it begin.
        """
        self._stop_first = None
        return self._work(until_idle, max_tasks)

    async def _work(self, until_idle: bool, max_tasks: int | None) -> int:
        if self._run is not None:
            msg = f"Worker {self.worker_id} is running already."
            raise InvalidInput(msg)
        if not self._handlers:
            msg = "This worker has no handlers. Register one: @worker.task('my_type')."
            raise InvalidHandler(msg)
        if max_tasks is not None and (isinstance(max_tasks, bool) or not isinstance(max_tasks, int) or max_tasks < 1):
            msg = f"max_tasks={max_tasks!r} must be a whole number, at least 1."
            raise InvalidInput(msg)
        # Who observes the queue since then sees the calls of the sweeper, too.
        sweeper = Sweeper(self.queue.store, self._retention, self.queue.events)
        self._run = Run(self, sweeper, dict(self._handlers), self._middleware, until_idle, max_tasks)
        if self._stop_first is not None:
            self._run.stop(now=self._stop_first)
        try:
            return await self._run.work()
        finally:
            self._run = None

    @property
    def last_beat(self) -> float | None:
        """When leases were last looked after, by `time.monotonic`; None while nothing runs."""
        run = self._run
        return None if run is None else run.heartbeat.last_beat

    @property
    def is_claiming(self) -> bool:
        """Whether it takes tasks: it has begun, and was not told to stop."""
        run = self._run
        return run is not None and run.started_at is not None and not run.stopping

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop, and has not ended yet."""
        run = self._run
        return run is not None and run.stopping

    @property
    def trouble(self) -> str | None:
        """What it cannot do at this moment because the store does not let it, or None."""
        run = self._run
        return None if run is None else run.outage.trouble

    def stop(self, *, now: bool = False) -> None:
        """Stop gracefully: claim no more, give back what has not started, let the rest finish within `grace`.

        With `now`, what runs is cancelled and given back at once.
        """
        if self._run is not None:
            self._run.stop(now=now)
        else:
            self._stop_first = now


def _positive(field: str, value: float | timedelta) -> timedelta:
    duration = times.seconds(value, field)
    if not duration:
        msg = f"{field}={value!r} must be more than zero seconds."
        raise InvalidInput(msg)
    return duration


def _worker_id(given: str | None) -> str:
    if given is None:
        return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    if not isinstance(given, str) or not given or not given.isprintable():
        msg = f"worker_id={given!r} must be a string of at least one printable character."
        raise InvalidInput(msg)
    return given


def _names(queues: Iterable[str]) -> tuple[str, ...]:
    names = (queues,) if isinstance(queues, str) else tuple(queues)
    if not names or not all(isinstance(name, str) and name for name in names):
        msg = f"queues={queues!r} must name at least one queue."
        raise InvalidInput(msg)
    return names
