"""Waiting for a store that is away: longer each time, and one log line per outage."""

from __future__ import annotations

import asyncio
import logging
import random

log = logging.getLogger("tenure.worker")

FIRST, LONGEST = 0.1, 5.0


class Backoff:
    """Counts failures in a row of one kind of work."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._pause = 0.0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._pause > 0

    async def wait(self, error: BaseException) -> None:
        """Another failure: say so if it is the first, and wait before the next try."""
        if not self.failing:
            log.warning("cannot %s for now, and will keep trying: %s", self._work, error)
        self._pause = min(max(self._pause * 2, FIRST), LONGEST)
        await asyncio.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311 - spreading workers

    def reset(self) -> None:
        """It worked again."""
        if self.failing:
            log.warning("can %s again", self._work)
            self._pause = 0.0
