"""Task ids: UUIDv7, so that they sort by the time of their submit."""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING

from tenure.times import to_micros

if TYPE_CHECKING:
    from datetime import datetime

_COUNTER_LIMIT = 1 << 12
_random = random.Random()  # noqa: S311 - ids must differ, not be secret
_VARIANT = 1 << 63


class _Series:
    """Counts the ids of a millisecond, so that later ids of one process sort after earlier ones."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._start(0)

    def next(self, millisecond: int) -> str:
        with self.lock:
            if millisecond > self.millisecond:
                self._start(millisecond)
            elif self.count + 1 < _COUNTER_LIMIT:
                self.count += 1
            else:
                self._start(self.millisecond + 1)
            return f"{self.head}{self.count:03x}"

    def _start(self, millisecond: int) -> None:
        digits = f"{millisecond:012x}"
        self.millisecond, self.count, self.head = millisecond, 0, f"{digits[:8]}-{digits[8:]}-7"


_series = _Series()


def _begin_anew() -> None:
    """A forked child shares neither the parent's random numbers nor a lock that one of its threads held."""
    _random.seed()
    _series.lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def new_id(now: datetime) -> str:
    """A UUIDv7 of this instant. While the clock stands still or goes back, the last instant is counted on."""
    tail = f"{_VARIANT | _random.getrandbits(62):x}"
    return f"{_series.next(to_micros(now) // 1000)}-{tail[:4]}-{tail[4:]}"
