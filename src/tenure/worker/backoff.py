"""Waiting for a store that is away: longer each time, and one log line per outage."""

from __future__ import annotations

import asyncio
import logging
import random
import threading

log = logging.getLogger("tenure.worker")

FIRST, LONGEST = 0.1, 5.0
ENDING = "end tasks"


class Outage:
    """What the parts of a worker, in whichever thread, could not do since the store went away.

    The first failure is told, and the end of the last one; the others say nothing new.
    """

    def __init__(self) -> None:
        self._failing: dict[str, str] = {}
        self._lock = threading.Lock()

    def failed(self, work: str, error: BaseException) -> None:
        """This kind of work did not get through."""
        with self._lock:
            if not self._failing:
                log.warning("cannot %s for now, and will keep trying: %s", work, error)
            self._failing[work] = str(error)

    def worked(self, work: str) -> None:
        """This kind of work got through again."""
        with self._lock:
            if work in self._failing:
                del self._failing[work]
                if not self._failing:
                    log.warning("the store is back: can %s again", work)

    @property
    def trouble(self) -> str | None:
        """What cannot be done at this moment, and why; None while all gets through.

        Endings do not count: those of one shard that is away wait, and the worker goes on with all others.
        """
        with self._lock:
            troubles = [f"it cannot {work}: {error}" for work, error in self._failing.items() if work != ENDING]
        return troubles[0] if troubles else None


class Backoff:
    """Counts failures in a row of one kind of work."""

    def __init__(self, work: str, outage: Outage) -> None:
        self._work = work
        self._outage = outage
        self._pause = 0.0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._pause > 0

    async def wait(self, error: BaseException) -> None:
        """Another failure: wait before the next try, longer than before."""
        self._outage.failed(self._work, error)
        self._pause = min(max(self._pause * 2, FIRST), LONGEST)
        await asyncio.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311 - spreading workers

    def reset(self) -> None:
        """It worked again."""
        if self.failing:
            self._outage.worked(self._work)
            self._pause = 0.0
