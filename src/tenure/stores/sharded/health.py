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
    """What is known of one shard. Its handles in several threads share it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.away: StoreUnavailable | None = None
        self._lock = threading.Lock()
        self._pause = self._again_at = 0.0

    @property
    def can_be_asked(self) -> bool:
        """Whether a call that could do without it should ask it now."""
        return self.away is None or time.monotonic() >= self._again_at

    def failed(self, error: StoreUnavailable) -> None:
        """It did not answer."""
        with self._lock:
            if self.away is None:
                log.warning("%s cannot be reached: its tasks wait, all others go on. %s", self.name, error)
            self.away = error
            self._pause = min(max(self._pause * 2, FIRST), LONGEST)
            self._again_at = time.monotonic() + self._pause

    def worked(self) -> None:
        """It answered."""
        if self.away is not None:
            with self._lock:
                self.away, self._pause = None, 0.0
                log.warning("%s is back", self.name)
