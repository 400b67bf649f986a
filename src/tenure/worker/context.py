"""What a handler can see and ask while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Coroutine, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tenure import times
from tenure.errors import InvalidHandler, InvalidInput, LeaseLost
from tenure.observe.logging import TASKS
from tenure.stores.base import Hold, Renewal, Transaction
from tenure.task import Progress, Task

if TYPE_CHECKING:
    from tenure.queue import Queue

_log = logging.getLogger(TASKS)


T = TypeVar("T")


class Holder(Protocol):
    """Who has to know for how long a claim is held."""

    def extended(self, lease: timedelta) -> None:
        """The handler itself has just renewed the lease."""


class _TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts fields on every line, beside those that a line has of its own."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        # Which task it was is not for a line to change.
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


class Context(msgspec.Struct, eq=False):
    """The claim that a handler works under."""

    task: Task
    queue: Queue
    cancel_requested: bool = False
    """Whether someone asked this task to stop. A handler that looks can end in its own way."""
    kept: dict[str, Any] | None = None
    """What observers keep for the length of the attempt."""
    open_transaction: Transaction | None = None
    """What `transaction` has begun; it ends with the handler."""
    _holder: Holder | None = None
    _progress: Progress | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<Context of task {self.task.id}, attempt {self.attempt}>"

    @property
    def attempt(self) -> int:
        """The number of this execution, from 1."""
        return self.task.attempt

    @property
    def fence(self) -> int:
        """The number of this claim; it only grows. Give it to systems that must refuse an outdated worker."""
        return self.task.fence

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that puts id, type, queue, attempt and worker on every line, beside what a line gives as `extra`."""
        task = self.task
        about = {
            "task_id": task.id,
            "task_type": task.type,
            "queue": task.queue,
            "attempt": task.attempt,
            "worker_id": task.worker_id,
        }
        return _TaskLogger(_log, about)

    def wait_for(self, call: Coroutine[Any, Any, T]) -> T:
        """For a plain handler, on its thread: the answer to what others `await`, as in `context.wait_for(context.queue.submit(…))`."""
        if self._loop is None or asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public one raises
            call.close()
            msg = f"context.wait_for is for plain handlers, which run on a thread. {self.task.type!r} is none: write `await`."
            raise InvalidHandler(msg)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    async def extend_lease(self, seconds: float | timedelta) -> None:
        """Hold the task for at least this long from now. The library renews by itself; this asks for more."""
        lease = times.seconds(seconds, "seconds")
        (hold,) = await self.queue.store.part_of(self.task).renew(
            [Renewal(self.task.id, self.fence, lease, self._progress)]
        )
        if hold is Hold.Lost:
            raise LeaseLost(self.task.id, self.fence, "no longer running here", self.fence + 1)
        if self._holder is not None:
            self._holder.extended(lease)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """The handler's own writes and the end of its task, together: `async with context.transaction() as connection`.

        On a PostgreSQL store, `connection` is one of asyncpg with an open transaction. It commits when the
        handler returns, in one step with the completion of the task; when the handler fails, or another worker
        has claimed the task meanwhile, everything written on it is undone. So its effect is there exactly once.
        """
        if self.open_transaction is not None:
            msg = "context.transaction() was called before. A handler has one transaction: write everything on it."
            raise InvalidInput(msg)
        self.open_transaction = transaction = await self.queue.store.part_of(self.task).begin()
        try:
            yield transaction.connection
        except BaseException:
            self.open_transaction = None
            await transaction.rollback()
            raise

    def over(self) -> None:
        """The handler has ended. Whoever holds on to the context does not hold the attempt."""
        self._holder = None

    def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is. It is stored with the next renewal of the lease, at most a second later."""
        for name, value in (("current", current), ("total", total)):
            if value is None and name == "total":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                msg = f"progress({name}={value!r}): {name} must be a finite number."
                raise InvalidInput(msg)
        # What cannot be stored would damage the record of the very task that reports it.
        words = None if message is None else str(message).encode(errors="backslashreplace").decode()
        self._progress = Progress(current, total, words)

    @property
    def has_progress(self) -> bool:
        """Whether something was reported that has not been stored."""
        return self._progress is not None

    def take_progress(self) -> Progress | None:
        """What was reported since the last call."""
        report, self._progress = self._progress, None
        return report
