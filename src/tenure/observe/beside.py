"""Work that must not hold up the event loop: one thread does it, and lives as long as there is some."""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger("tenure.observe")

LAST_WORDS = 2.0
"""How long a process that ends without closing its queue waits for what is left."""


class Beside:
    """Does what it is given, in order. What it has no room for is dropped and counted, and told in one line."""

    def __init__(self, what: str, room: int) -> None:
        self.what = what
        self._room = room
        self._waiting: deque[Callable[[], None]] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._registered = False

    def has_room(self) -> bool:
        """Whether there is room for one more; if not, that one counts as dropped."""
        if len(self._waiting) < self._room:
            return True
        with self._lock:
            self._dropped += 1
        return False

    def put(self, work: Callable[[], None]) -> None:
        """Have this done, soon."""
        with self._lock:
            self._waiting.append(work)
            if not self._at_work():
                self._thread = threading.Thread(target=self._work, name=f"tenure-{self.what}", daemon=True)
                self._thread.start()
        if not self._registered:
            # Now rather than earlier: who registers last is called first, before those that send what is made here.
            self._registered = True
            atexit.register(self.finish, LAST_WORDS)

    def finish(self, patience: float) -> None:
        """Wait for what is left, but not for ever."""
        if (thread := self._thread) is not None:
            thread.join(patience)
            if thread.is_alive():
                log.warning("%d %s still wait after %g s and may be lost", len(self._waiting) + 1, self.what, patience)

    def _at_work(self) -> bool:
        # In a process that was forked from another, the thread is gone.
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:
                log.exception("one of the %s failed", self.what)

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            dropped, self._dropped = self._dropped, 0
            if not dropped:
                self._thread = None
                return None
        words = "%d %s were dropped: more than %d waited"
        return lambda: log.warning(words, dropped, self.what, self._room)
