"""Threads for plain handlers. Unlike those of the standard library, they never keep a process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads:
    """Starts a thread when none is idle, up to a number; the rest waits."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run the call on a thread."""
        answer: Future[Any] = Future()
        self._calls.put((answer, call))
        if not self._idle.acquire(blocking=False) and self._started < self._size:
            self._started += 1
            threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()
        return answer

    def close(self) -> None:
        """Let idle threads go; a busy one goes when its call is over."""
        for _ in range(self._started):
            self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            _answer(*call)
            del call
            self._idle.release()


def _answer(answer: Future[Any], call: Callable[[], Any]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(call())
    except BaseException as error:
        answer.set_exception(error)
