"""The same calls without `await`, for programs that have no event loop.

>>> import tenure.sync
>>> with tenure.sync.connect("memory://") as queue:
...     queue.submit("greet", {"name": "Ada"}).status
<TaskStatus.Pending: 'pending'>
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tenure import queue as _async
from tenure.errors import StoreClosed
from tenure.observe.events import Subscriber
from tenure.stores.door import Door
from tenure.task import Task, TaskStatus

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[_async.Queue, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Queue, P], R]:
    def call(self: Queue, /, *arguments: P.args, **keywords: P.kwargs) -> R:
        return self._wait(method(self._queue, *arguments, **keywords))

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class Queue:
    """A queue whose calls block. Any thread may use it; calls made at once share one commit."""

    def __init__(self, url: str | Sequence[str] | None, clock: Callable[[], datetime] | None = None) -> None:
        self._door = Door("This queue")
        self._handing_in, self._closing = threading.Lock(), threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tenure-sync", daemon=True)
        self._thread.start()
        try:
            self._queue: _async.Queue = self._wait(_open(url, clock))
        except BaseException:
            self._stop()
            raise

    submit = _blocking(_async.Queue.submit)
    enqueue = submit
    submit_many = _blocking(_async.Queue.submit_many)
    now = _blocking(_async.Queue.now)
    get = _blocking(_async.Queue.get)
    list = _blocking(_async.Queue.list)
    history = _blocking(_async.Queue.history)
    explain = _blocking(_async.Queue.explain)
    result = _blocking(_async.Queue.result)
    cancel = _blocking(_async.Queue.cancel)
    cancel_many = _blocking(_async.Queue.cancel_many)
    cancel_by_type = _blocking(_async.Queue.cancel_by_type)
    retry = _blocking(_async.Queue.retry)
    replay = retry
    requeue = retry
    mark_expired = _blocking(_async.Queue.mark_expired)
    archive = _blocking(_async.Queue.archive)
    purge = _blocking(_async.Queue.purge)
    pause = _blocking(_async.Queue.pause)
    resume = _blocking(_async.Queue.resume)
    paused = _blocking(_async.Queue.paused)
    counts = _blocking(_async.Queue.counts)
    stats = _blocking(_async.Queue.stats)
    throughput = _blocking(_async.Queue.throughput)
    workers = _blocking(_async.Queue.workers)

    def scan(self, status: TaskStatus | str | None = None, **filters: Any) -> Iterator[Task]:
        """Every task that passes the filters of `list`, page by page."""
        cursor = None
        while True:
            page = self.list(status, **filters, limit=1000, cursor=cursor)
            yield from page.tasks
            if (cursor := page.cursor) is None:
                return

    def observe(self, *subscribers: Subscriber) -> Self:
        """Tell these what happens here, from now on."""
        self._queue.observe(*subscribers)
        return self

    def close(self) -> None:
        """Let go of the store. Whoever still waits for an answer is told; closing twice, or at once, is fine."""
        if self._door.is_elsewhere:
            return
        with self._closing:
            if self._loop.is_closed():
                return
            with self._handing_in:
                self._door.shut()
            try:
                asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            finally:
                self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, call: Coroutine[Any, Any, R]) -> R:
        answer = self._hand_in(call)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            msg = (
                "This queue was closed while a call waited for its answer. "
                "Connect again, and look whether the call took effect."
            )
            raise StoreClosed(msg) from None

    def _hand_in(self, call: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        try:
            # Before the lock, too: in a forked child it may be held by a thread that is not there.
            self._door.check()
            with self._handing_in:
                self._door.check()
                return asyncio.run_coroutine_threadsafe(call, self._loop)
        except StoreClosed:
            call.close()
            raise

    async def _end(self) -> None:
        """Close the queue, and let nobody wait for what will never come."""
        try:
            await self._queue.close()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _open(url: str | Sequence[str] | None, clock: Callable[[], datetime] | None) -> _async.Queue:
    return await _async.connect(url, clock=clock)


def connect(url: str | Sequence[str] | None = None, *, clock: Callable[[], datetime] | None = None) -> Queue:
    """Connect to a store; the same addresses as `tenure.connect`."""
    return Queue(url, clock)
