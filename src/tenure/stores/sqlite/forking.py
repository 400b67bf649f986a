"""What becomes of open connections when the process is forked.

SQLite keeps account within a process of the locks that it holds on a file, and the system gives none of those locks to a
child: one that opened the file anew would believe the account, and work on it unprotected or wait for ever. So a fork
waits until no connection is in the middle of something, and the child begins with closing them all, which
takes nothing from the parent: its own locks on the file keep the child from touching it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from weakref import WeakKeyDictionary

PATIENCE = 5.0
"""Seconds that a fork waits for one connection; it is in the middle of something for milliseconds, as a rule."""

_gate = threading.Lock()
"""Held during a fork, so that nobody begins something new before it is over."""


class Use:
    """Held while a connection is in the middle of something; one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with _gate:
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self) -> bool:
        """Until it is over. False when that takes too long."""
        return self._lock.acquire(timeout=PATIENCE)

    def go_on(self) -> None:
        """Whoever waits for it may have it."""
        self._lock.release()


_uses: WeakKeyDictionary[sqlite3.Connection, Use] = WeakKeyDictionary()
_resting: list[tuple[sqlite3.Connection, Use]] = []


def use_of(connection: sqlite3.Connection) -> Use:
    """What to hold while this new connection is in use."""
    use = Use()
    with _gate:
        _uses[connection] = use
    return use


def _rest() -> None:
    _gate.acquire()
    _resting.extend(each for each in _uses.items() if each[1].wait())


def _go_on() -> None:
    while _resting:
        _resting.pop()[1].go_on()
    _gate.release()


def _begin_anew() -> None:
    for connection, _ in _resting:
        with contextlib.suppress(sqlite3.Error):
            connection.close()
    _uses.clear()
    _go_on()


os.register_at_fork(before=_rest, after_in_parent=_go_on, after_in_child=_begin_anew)
