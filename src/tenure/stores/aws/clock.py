"""The server's clock, learnt from the `Date` of its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from tenure.times import EPOCH

DRIFT = 100e-6
"""How far two clocks may part in a second, in seconds."""
AGREEMENT = 1.0
"""A time that differs by more than these seconds from all that was heard before has to be said twice."""


class ServerClock:
    """Keeps what is possible: how far the server's clock is ahead of this machine's monotonic one.

    A `Date` has whole seconds, and the answer was made at some moment between the sending of the
    request and the arrival of the answer. So each answer gives a lowest and a highest distance, a
    second and a round trip apart. What all answers allow is narrower with each one that comes
    just before or after a full second. The lowest is told: it is never ahead of the server.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._lock = threading.Lock()
        self._low = self._high = 0.0
        self._heard: float | None = None
        self._doubted: float | None = None
        self._told = EPOCH

    @property
    def known(self) -> bool:
        """Whether any answer has told the time yet."""
        return self._heard is not None

    @property
    def uncertainty(self) -> float:
        """By how many seconds the server may be ahead of what is told here."""
        return self._high - self._low

    def hear(self, date: str | None, sent: float, received: float) -> None:
        """An answer has come; `sent` and `received` are this machine's monotonic times."""
        if date is None:
            return
        try:
            second = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        with self._lock:
            self._narrow(second - received, second + 1 - sent, received)

    def _narrow(self, low: float, high: float, received: float) -> None:
        if self._heard is None:
            self._low, self._high, self._heard = low, high, received
            return
        drift = DRIFT * max(received - self._heard, 0)
        known_low, known_high = self._low - drift, self._high + drift
        gap = max(low - known_high, known_low - high)
        if gap > AGREEMENT and (self._doubted is None or abs(self._doubted - low) > AGREEMENT + 1):
            # One answer of a machine with a wrong clock must not move everyone's time.
            self._doubted = low
            return
        self._doubted = None
        self._heard = max(self._heard, received)
        if gap > 0:
            self._low, self._high = low, high
        else:
            self._low, self._high = max(known_low, low), min(known_high, high)

    def has_been(self, moment: datetime) -> None:
        """Somebody else who is never ahead of the server has stored this time: the server is past it.

        So two who have heard the server only once or twice, and may be a second apart, agree on what has happened.
        """
        with self._lock:
            distance = (moment - EPOCH).total_seconds() - self.monotonic()
            if self._heard is not None and distance <= self._high:
                self._low = max(self._low, distance)

    def now(self) -> datetime:
        """The server's time. It never runs backwards, whatever is heard."""
        with self._lock:
            moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=self.monotonic() + self._low)
            self._told = max(self._told, moment)
            return self._told
