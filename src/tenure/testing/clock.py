"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenure import times

NOON = datetime(2026, 1, 28, 12, tzinfo=UTC)


class FakeClock:
    """Give it to a store as its clock: `connect("memory://", clock=FakeClock())`.

    >>> clock = FakeClock(datetime(2026, 1, 28, 12))
    >>> clock.advance(90).isoformat()
    '2026-01-28T12:01:30+00:00'
    """

    def __init__(self, start: datetime = NOON) -> None:
        self._now = times.utc(start)

    def __call__(self) -> datetime:
        """The time that the test has set."""
        return self._now

    def advance(self, by: float | timedelta) -> datetime:
        """Let this much time pass: seconds or a timedelta."""
        self._now += times.seconds(by, "by")
        return self._now

    def set(self, moment: datetime) -> datetime:
        """Make it this moment; earlier ones too, as real clocks sometimes do."""
        self._now = times.utc(moment)
        return self._now

    def __repr__(self) -> str:
        return f"<FakeClock at {times.to_text(self._now)}>"
