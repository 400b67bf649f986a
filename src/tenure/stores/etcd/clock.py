"""The time of the store, as far as this process has heard of it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

STALE_AFTER = 30.0
"""Seconds after which a stamp is wanted again, because two machines do not count seconds quite alike."""
SKEW = timedelta(seconds=5)
"""Two processes that count on from one stamp differ by much less. A time further ahead came from elsewhere."""


def ticks() -> float:
    """Seconds that go by, whatever is done to the clock on the wall, and also while the machine sleeps."""
    return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LogClock:
    """Keeps the distance between the stamps in the log and the seconds that are counted here.

    A stamp is older than the moment at which it is seen. So what is told here is never ahead of the
    one who stamps, and behind by no more than the stamp took to get here.
    """

    def __init__(self) -> None:
        self._origin: datetime | None = None
        self._heard = 0.0
        self.keeping = False

    @property
    def started(self) -> bool:
        """Whether any time was ever heard of."""
        return self._origin is not None

    @property
    def known(self) -> bool:
        """Whether the time can be told without asking."""
        return self._origin is not None and (self.keeping or ticks() - self._heard < STALE_AFTER)

    def hear(self, stamp: datetime) -> None:
        """A stamp was seen just now."""
        heard = ticks()
        origin = stamp - timedelta(seconds=heard)
        if not self.known or self._origin is None or origin > self._origin:
            self._origin = origin
        self._heard = heard

    def hear_of(self, at: datetime) -> None:
        """Somebody has written this time: it cannot be earlier now."""
        if self._origin is not None and timedelta(0) < (ahead := at - self.now()) < SKEW:
            self._origin += ahead

    def trust(self, seconds: float) -> None:
        """Nobody can be asked: go on with what was heard last."""
        self._heard = ticks() - STALE_AFTER + seconds

    def shift(self, seconds: float) -> None:
        """Whoever keeps the time corrects it a little."""
        if self._origin is not None:
            self._origin += timedelta(seconds=seconds)

    def now(self) -> datetime:
        """The store's time."""
        assert self._origin is not None
        return self._origin + timedelta(seconds=ticks())
