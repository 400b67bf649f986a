"""How many tasks a worker may hold that have not begun: as many as it will begin within the next moment."""

from __future__ import annotations

from tenure.worker import surroundings

LEAST, MOST = 0.1, 0.5
"""Seconds of work in hand, at least and at most; between them, three times what a claim takes."""
LIMIT = 2000
WINDOW = 0.05
"""Seconds after which a rate is an old one."""


class Prefetch:
    """Follows the rate at which tasks end, and the time that claims take."""

    def __init__(self) -> None:
        self._ahead = LEAST
        self._rate = 0.0
        self._count = 0
        self._since = surroundings.monotonic()

    def ended(self, count: int) -> None:
        """So many tasks have ended."""
        self._count += count
        elapsed = surroundings.monotonic() - self._since
        if elapsed > WINDOW / 2:
            rate = self._count / elapsed
            self._rate = (self._rate + rate) / 2 if self._rate else rate
            self._count, self._since = 0, surroundings.monotonic()

    def claimed(self, seconds: float) -> None:
        """A claim that found something took this long."""
        self._ahead = min(max(LEAST, (self._ahead + 3 * seconds) / 2), MOST)

    def room(self, waiting: int) -> int | None:
        """How many more may wait beside those that do; None while enough of them do."""
        size = min(int(self._rate_now() * self._ahead), LIMIT)
        return None if waiting > size // 2 else size - waiting

    def _rate_now(self) -> float:
        """It falls while nothing ends, so that slow handlers do not lead to claims that are only given back."""
        elapsed = surroundings.monotonic() - self._since
        return self._rate if elapsed < WINDOW else min(self._rate, (self._count + 1) / elapsed)
