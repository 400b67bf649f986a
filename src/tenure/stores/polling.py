"""Waiting for writes where nobody tells: one's own are known at once, others' are looked for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable


class Poll:
    """Counts what this process has written, and says how long to wait before looking for the rest.

    While things happen the pauses are short; the longer nothing does, the longer they grow, up
    to `longest`.
    """

    def __init__(
        self, first: float = 0.05, longest: float = 5.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._first, self._longest = min(first, longest), longest
        self._monotonic = monotonic
        self._last_news = monotonic()
        self._sleepers: set[asyncio.Event] = set()
        self._closed = False
        self.count = 0

    def written(self) -> None:
        """Something was written by this process: whoever waits may look at once."""
        self.count += 1
        self.noticed()
        for sleeper in self._sleepers:
            sleeper.set()

    def noticed(self) -> None:
        """Something of others was found: look again soon."""
        self._last_news = self._monotonic()

    def pause(self) -> float:
        """Seconds until it is worth looking again."""
        quiet = self._monotonic() - self._last_news
        return min(max(quiet / 10, self._first), self._longest)

    async def wait(self, mark: object, seconds: float) -> None:
        """Return when this process has written since the mark, or when it is time to look, or the time is over."""
        if self._closed or self.count != mark or seconds <= 0:
            return
        sleeper = asyncio.Event()
        self._sleepers.add(sleeper)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, self.pause())):
                    await sleeper.wait()
        finally:
            self._sleepers.discard(sleeper)

    def close(self) -> None:
        """Let everyone go."""
        self._closed = True
        self.written()
