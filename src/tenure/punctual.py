"""An event loop whose timers are on time.

On Linux the loop of asyncio sleeps in whole milliseconds, rounded up: a handler that waits for 10 ms gets 10.6 on average, and all
that wake up in the same millisecond begin one after the other. Here it sleeps to the microsecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import select
import selectors

SHORT = 0.1
"""Seconds of sleep below which a millisecond makes a difference."""
REACH = 1024
"""The first descriptor that `select` cannot take."""
PR_SET_TIMERSLACK, SLACK = 29, 1000
"""How late the kernel may wake this thread, in nanoseconds, instead of the usual 50,000."""


def punctual_loop() -> asyncio.AbstractEventLoop:
    """A new event loop for this thread; where timers are exact already, it is the usual one.

    >>> with asyncio.Runner(loop_factory=punctual_loop) as runner:
    ...     runner.run(asyncio.sleep(0.001, "on time"))
    'on time'
    """
    if selectors.DefaultSelector is not getattr(selectors, "EpollSelector", None):
        return asyncio.new_event_loop()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK, 0, 0, 0)
    return asyncio.SelectorEventLoop(_Punctual())


if hasattr(selectors, "EpollSelector"):

    class _Punctual(selectors.EpollSelector):
        """Sleeps in `select`, until there is something to do, and only then asks epoll what: its own descriptor can be read then."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and 0 < timeout < SHORT and (epoll := self.fileno()) < REACH:
                select.select([epoll], [], [], timeout)
                timeout = 0
            return super().select(timeout)
