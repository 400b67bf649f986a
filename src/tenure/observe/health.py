"""Whether a worker is alive and ready, as seen from another thread: a loop that is stuck cannot hide it."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import CancelledError
from typing import Protocol, Self

from tenure.worker import Worker

STUCK_AFTER = 30.0
"""Seconds without a turn of the event loop after which a worker is stuck."""
TURN_EVERY = 0.5
ANSWER_WITHIN = 2.0


class Signs(Protocol):
    """Whoever can be asked how it is; None is well, else the reason."""

    def not_live(self) -> str | None:
        """Why it should be started anew."""

    def not_ready(self) -> str | None:
        """Why it cannot do its work at this moment."""

    def is_stopping(self) -> bool:
        """Whether it ends on purpose."""


class Health:
    """Watches a worker: `async with Health(worker): await worker.run()`.

    Alive means that the event loop turns and that leases are renewed. A store that is away does not end a life, because a
    new worker could not reach it either: that is what ready is for.
    """

    def __init__(self, worker: Worker, stuck_after: float = STUCK_AFTER) -> None:
        self._worker = worker
        self._stuck_after = stuck_after
        self._turned = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._turn()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def _turn(self) -> None:
        assert self._loop is not None
        self._turned = time.monotonic()
        self._timer = self._loop.call_later(TURN_EVERY, self._turn)

    def not_live(self) -> str | None:
        """A reason to start it anew, or None."""
        if self._still() > self._stuck_after:
            return self._blocked()
        beat = self._worker.last_beat
        patience = max(self._stuck_after, self._worker.lease.total_seconds())
        if beat is not None and (silent := time.monotonic() - beat) > patience:
            return f"no lease has been renewed for {silent:.0f} s"
        return None

    def _still(self) -> float:
        return time.monotonic() - self._turned

    def _blocked(self) -> str:
        return f"the event loop has not turned for {self._still():.0f} s: a handler blocks it"

    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._worker.is_stopping

    def not_ready(self) -> str | None:
        """A reason why it cannot work right now, or None. It asks the store."""
        loop = self._loop
        if loop is None or not self._worker.is_claiming:
            return "it is not running" if loop is None else "it is stopping" if self.is_stopping() else "it is starting"
        # A store that can be read need not let anyone claim.
        if trouble := self._worker.trouble:
            return trouble
        question = asyncio.run_coroutine_threadsafe(self._worker.queue.get("tenure.ready"), loop)
        try:
            question.result(ANSWER_WITHIN)
        except TimeoutError:
            question.cancel()
            if self._still() > ANSWER_WITHIN - TURN_EVERY:
                return self._blocked()
            return f"the store did not answer within {ANSWER_WITHIN:g} s"
        except (Exception, CancelledError) as error:
            return f"the store does not answer: {error or repr(error)}"
        return None
