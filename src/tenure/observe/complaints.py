"""Tells what fails with every event, but not with a traceback for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger("tenure.observe")

EVERY = 60.0


class Complaints:
    """The failures of subscribers: one a minute for each of their methods and each kind of error, with the number of those left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, method: Callable[..., Any], error: Exception) -> None:
        """A method of a subscriber has raised."""
        # By their names: some are made anew for each attempt.
        kind = getattr(method, "__qualname__", type(method).__qualname__), type(error).__qualname__
        now = self._clock()
        silent_until, left_out = self._told.get(kind, (now, 0))
        if now < silent_until:
            self._told[kind] = silent_until, left_out + 1
            return
        self._told[kind] = now + EVERY, 0
        before = f", as it did {left_out} times since it was last told" if left_out else ""
        log.error("%r failed%s", method, before, exc_info=error)
