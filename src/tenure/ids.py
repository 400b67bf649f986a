"""Task ids: UUIDv7, so that they sort by the time of their submit.

The last three digits are a bucket. What belongs together (an ordering key's tasks, a key and its task) shares
one, so that an id alone leads to the place where its task is kept, however many places there are. The twelve
random digits before it are shared by what was submitted in one batch, so that a store which keeps a batch
together finds it by any of its ids.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
from string import hexdigits
from typing import TYPE_CHECKING

from tenure.times import to_micros

if TYPE_CHECKING:
    from datetime import datetime

_DIGITS = tuple(f"{number:03x}" for number in range(1 << 12))
"""Every three digits: looking them up takes a quarter of the time of writing them."""
_random = random.Random()  # noqa: S311 - ids must differ, not be secret
_VARIANT = 1 << 47
_UUID7 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class _Series:
    """Counts the ids of a millisecond, so that later ids of one process sort after earlier ones."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._start(0)

    def next(self, millisecond: int) -> str:
        with self.lock:
            if millisecond > self.millisecond:
                self._start(millisecond)
            elif self.count + 1 < len(_DIGITS):
                self.count += 1
            else:
                self._start(self.millisecond + 1)
            return f"{self.head}{_DIGITS[self.count]}"

    def _start(self, millisecond: int) -> None:
        digits = f"{millisecond:012x}"
        self.millisecond, self.count, self.head = millisecond, 0, f"{digits[:8]}-{digits[8:]}-7"


_series = _Series()


def _begin_anew() -> None:
    """A forked child shares neither the parent's random numbers nor a lock that one of its threads held."""
    _random.seed()
    _series.lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


class Batch:
    """Makes the ids of what is submitted at one moment. They share twelve digits."""

    __slots__ = ("_millisecond", "_shared")

    def __init__(self, now: datetime) -> None:
        self._millisecond = to_micros(now) // 1000
        digits = f"{_VARIANT | _random.getrandbits(46):x}"
        self._shared = f"-{digits[:4]}-{digits[4:]}"

    def new_id(self, belongs_to: str | None = None) -> str:
        """A UUIDv7 of that moment. While the clock stands still or goes back, the last one is counted on."""
        place = _random.getrandbits(16) if belongs_to is None else bucket(belongs_to)
        return f"{_series.next(self._millisecond)}{self._shared}{hexdigits[place >> 12]}{_DIGITS[place & 0xFFF]}"


def new_id(now: datetime, belongs_to: str | None = None) -> str:
    """The id of something that is alone in its batch."""
    return Batch(now).new_id(belongs_to)


def belonging_to(task_id: str, key: str) -> str:
    """The same id, in the bucket of a key."""
    return f"{task_id[:-3]}{_DIGITS[bucket(key)]}"


def bucket(key: str) -> int:
    """One of 4,096 buckets, for ever the same for the same text."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:2]) >> 4


def bucket_of(task_id: str) -> int:
    """The bucket that an id names if it is a UUIDv7, else that of its text.

    >>> hex(bucket_of("019a4c2e-7b00-7000-8000-00000000beef")), hex(bucket_of("order-7"))
    ('0xeef', '0xdf8')
    """
    return int(task_id[-3:], 16) if _UUID7.fullmatch(task_id) else bucket(task_id)
