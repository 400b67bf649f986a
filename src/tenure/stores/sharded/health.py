"""Whether a shard can be reached, told once when it changes."""

from __future__ import annotations

import logging
import threading
import time

from tenure.errors import StoreUnavailable

log = logging.getLogger("tenure.shards")

FIRST, LONGEST = 0.1, 5.0
"""Seconds for which a shard that does not answer is left alone: at first, and at the longest."""


class Health:
    """What is known of one shard. Its handles in several threads share it.

    Calls overlap: what comes of one that began before the last change says nothing about now.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.away: StoreUnavailable | None = None
        self._lock = threading.Lock()
        self._pause = self._again_at = 0.0
        self._changed_at = 0.0

    @property
    def can_be_asked(self) -> bool:
        """Whether a call that could do without it should ask it now."""
        return self.away is None or time.monotonic() >= self._again_at

    def failed(self, error: StoreUnavailable, began: float) -> None:
        """It did not answer a call that began at this time."""
        with self._lock:
            if self.away is None:
                if began < self._changed_at:
                    return
                self._changed_at = time.monotonic()
                log.warning("%s cannot be reached: its tasks wait, all others go on. %s", self.name, error)
            self.away = error
            self._pause = min(max(self._pause * 2, FIRST), LONGEST)
            self._again_at = time.monotonic() + self._pause

    def worked(self, began: float) -> None:
        """It answered a call that began at this time."""
        with self._lock:
            if self.away is not None and began >= self._changed_at:
                self.away, self._pause, self._changed_at = None, 0.0, time.monotonic()
                log.warning("%s is back", self.name)
