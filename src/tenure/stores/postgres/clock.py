"""The server's clock, known without asking for it each time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

STALE_AFTER = 30.0
"""Seconds after which an answer with a time in it is wanted again."""


class ServerClock:
    """Keeps the distance between the server's clock and this machine's monotonic one.

    A time that the server gave is older than the moment at which it arrives. So what is told
    here is never ahead of the server, and behind it by less than an answer takes.
    """

    def __init__(self) -> None:
        self._origin: datetime | None = None
        self._heard = 0.0

    @property
    def known(self) -> bool:
        """Whether the time can be told without asking."""
        return self._origin is not None and time.monotonic() - self._heard < STALE_AFTER

    def hear(self, now: datetime) -> None:
        """The server has just said what time it is."""
        heard = time.monotonic()
        origin = now.astimezone(UTC) - timedelta(seconds=heard)
        if self._origin is None or not self.known or origin > self._origin:
            self._origin, self._heard = origin, heard

    def now(self) -> datetime:
        """The server's time."""
        assert self._origin is not None
        return self._origin + timedelta(seconds=time.monotonic())
