"""Waking whoever waits for a commit: at once within a process and, where the system can tell, between processes.

Whoever has committed opens the log that all connections share, and closes it again. Linux tells those who listen
(inotify), so that an idle worker sleeps until there is something to see. Elsewhere waiters look by themselves, more
often while things happen.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

IN_OPEN = 0x20
LISTENING = 0.1
"""Seconds between two looks of those who listen: a process may die between its commit and the word about it."""
OFTEN, SELDOM = 0.001, 0.02


class Wakes:
    """The sleepers of a process."""

    def __init__(self, path: Path) -> None:
        # Not the other files: closing one of those would let go of the locks that SQLite holds on it.
        self._log = f"{path.resolve()}-wal"
        self._news = _listen(self._log)
        self._lock = threading.Lock()
        self._sleepers: dict[asyncio.Future[bool], asyncio.AbstractEventLoop] = {}
        self._last = time.monotonic()
        self._over = False

    def committed(self) -> None:
        """Something was written by this process: tell everyone."""
        with contextlib.suppress(OSError):
            os.close(os.open(self._log, os.O_RDONLY))
        self.wake()

    def wake(self) -> None:
        """End all sleep in this process."""
        self._rouse(woken=True)

    async def sleep(self, seconds: float) -> bool:
        """Sleep for a while, or until there may be something to see. True if this process itself has written."""
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(min(seconds, self._patience()), _finish, sleeper, False)
        with self._lock:
            if self._news is not None and loop not in self._sleepers.values():
                loop.add_reader(self._news, self._told, loop)
            self._sleepers[sleeper] = loop
        try:
            return await sleeper
        finally:
            timer.cancel()
            with self._lock:
                del self._sleepers[sleeper]
                if self._news is not None and loop not in self._sleepers.values():
                    loop.remove_reader(self._news)
                self._close_if_over()

    def close(self) -> None:
        """End all sleep, and listen no more."""
        with self._lock:
            self._over = True
            self._close_if_over()
        self.wake()

    def _close_if_over(self) -> None:
        # Not before the last loop has let go of the descriptor: its number may be another's by then.
        if self._over and not self._sleepers and self._news is not None:
            os.close(self._news)
            self._news = None

    def _patience(self) -> float:
        """How long to sleep when nobody tells anything."""
        if self._news is not None:
            return LISTENING
        return min(max((time.monotonic() - self._last) / 200, OFTEN), SELDOM)

    def _told(self, here: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._news is not None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._news, 4096)
        self._rouse(woken=False, here=here)

    def _rouse(self, *, woken: bool, here: asyncio.AbstractEventLoop | None = None) -> None:
        self._last = time.monotonic()
        if self._sleepers:
            with self._lock:
                for sleeper, loop in self._sleepers.items():
                    if loop is here:
                        _finish(sleeper, woken)
                        continue
                    # A loop that was closed with somebody asleep in it is no reason to fail a commit.
                    with contextlib.suppress(RuntimeError):
                        loop.call_soon_threadsafe(_finish, sleeper, woken)


def _finish(sleeper: asyncio.Future[bool], woken: bool) -> None:
    if not sleeper.done():
        sleeper.set_result(woken)


def _listen(path: str) -> int | None:
    """A descriptor that can be read when somebody has opened the file; None where there is no such thing."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        news: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, TypeError, AttributeError):
        return None
    if news < 0:
        return None
    if library.inotify_add_watch(news, os.fsencode(path), IN_OPEN) < 0:
        os.close(news)
        return None
    return news
