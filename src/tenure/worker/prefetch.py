"""How many tasks a worker may hold that have not begun: as many as it will begin within the next moment."""

from __future__ import annotations

from tenure.worker import surroundings

LEAST, MOST = 0.05, 0.5
"""Seconds of work in hand, at least and at most; between them, three times what a claim takes."""
LIMIT = 1000


class Prefetch:
    """Follows the rate at which tasks end, and the time that claims take."""

    def __init__(self) -> None:
        self._rate = _Rate()
        self._ahead = LEAST
        self.ended = self._rate.tick

    def claimed(self, seconds: float) -> None:
        """A claim that found something took this long."""
        self._ahead = min(max(LEAST, (self._ahead + 3 * seconds) / 2), MOST)

    def room(self, waiting: int) -> int | None:
        """How many more may wait beside those that do; None while enough of them do."""
        size = min(int(self._rate.per_second * self._ahead), LIMIT)
        return None if waiting > size // 2 else size - waiting


class _Rate:
    """How many tasks end per second, of late."""

    def __init__(self) -> None:
        self._smoothed = 0.0
        self._count = 0
        self._since = surroundings.monotonic()

    @property
    def per_second(self) -> float:
        """It falls while nothing ends, so that slow handlers do not lead to claims that are only given back."""
        elapsed = surroundings.monotonic() - self._since
        if elapsed < LEAST:
            return self._smoothed
        return min(self._smoothed, (self._count + 1) / elapsed)

    def tick(self) -> None:
        self._count += 1
        elapsed = surroundings.monotonic() - self._since
        if elapsed > LEAST / 2:
            rate = self._count / elapsed
            self._smoothed = (self._smoothed + rate) / 2 if self._smoothed else rate
            self._count, self._since = 0, surroundings.monotonic()
