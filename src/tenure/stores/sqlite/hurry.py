"""A thread of the store that can go on gets the interpreter soon.

Whoever comes back from SQLite has to wait until another thread lets go of the interpreter, and one that computes does so
after Python's switch interval: 5 ms, several times for each commit. So the interval is shorter while a thread of the
store is away, and only then: others who compute are not made to take turns more often than that.
"""

from __future__ import annotations

import os
import sys

SHORT = 1e-6 * 998
"""Seconds, as a whole number of microseconds, because that is how Python keeps it; one that nobody else would choose."""

_away: set[object] = set()
_usual: float | None = None


def leave(who: object) -> None:
    """Someone is about to leave the interpreter, or to be called into it, and wants to be in soon."""
    global _usual  # noqa: PLW0603 - there is one switch interval for all
    _away.add(who)
    # No lock: what two threads can do to each other here is to lose or to keep a short interval once.
    if (interval := sys.getswitchinterval()) > SHORT:
        _usual = interval
        sys.setswitchinterval(SHORT)


def arrive(who: object) -> None:
    """Someone is in. After the last one all is as it was, unless others have changed it meanwhile."""
    _away.discard(who)
    if not _away and _usual is not None and sys.getswitchinterval() == SHORT:
        sys.setswitchinterval(_usual)


def _begin_anew() -> None:
    """None of those threads is in a forked child."""
    _away.clear()
    arrive(None)


os.register_at_fork(after_in_child=_begin_anew)
