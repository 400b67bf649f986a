"""How what runs comes to an end when its worker is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from tenure.worker.attempt import Attempt, Stop

LAST_WORDS = 5.0
"""Seconds that cancelled handlers have to tidy up, and that a stopping worker tries to reach a store that is away."""


class Shutdown:
    """Lets handlers finish within the grace and then cancels them; in a hurry, it cancels them at once."""

    def __init__(self, running: set[Attempt], changed: asyncio.Event) -> None:
        self._running, self._changed = running, changed
        self._loop = asyncio.get_running_loop()
        self._graceful = True

    def hurry(self) -> None:
        """Wait no longer for what could finish."""
        self._graceful = False
        self._interrupt()
        self._changed.set()

    async def finish(self, grace: float) -> list[Attempt]:
        """Wait for the end of everything; returns the attempts whose handlers go on although they were cancelled."""
        await self.wait_for(self._running, grace, hurried=0)
        self._interrupt()
        await self.wait_for(self._running, LAST_WORDS)
        return list(self._running)

    async def wait_for(self, what: Collection[object], seconds: float, hurried: float = LAST_WORDS) -> None:
        """Until it is empty or the time is over, of which there is less in a hurry."""
        began = self._loop.time()
        while what:
            deadline = began + (seconds if self._graceful else min(seconds, hurried))
            if self._loop.time() >= deadline:
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()

    def _interrupt(self) -> None:
        for attempt in list(self._running):
            attempt.interrupt(Stop.Shutdown)
