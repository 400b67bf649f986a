"""The way into a store: shut after a close, in a forked child, and on an event loop that its connections do not belong to.

None of these ever heals by itself, and a call that went on would wait for ever for an answer that nobody can give.
"""

from __future__ import annotations

import asyncio
import os

from tenure.errors import StoreClosed, StoreUnusable


class Door:
    """Whether a store can be used from here. With `one_loop` it belongs to the event loop of its first call."""

    def __init__(self, what: str, *, one_loop: bool = False) -> None:
        self._what, self._one_loop = what, one_loop
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shut = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a fork of the process that has connected: threads and connections have stayed there."""
        return os.getpid() != self._process

    @property
    def is_shut(self) -> bool:
        """Whether nobody gets in any more, on whichever loop."""
        return self._shut or self.is_elsewhere

    def check(self) -> None:
        """Raise what is in the way."""
        if self.is_elsewhere:
            msg = (
                f"{self._what} was connected in process {self._process}, and this is process {os.getpid()}, a fork of it: "
                "its threads and connections have stayed there. Connect again in this process."
            )
            raise StoreClosed(msg)
        if self._shut:
            msg = f"{self._what} is closed. Connect again."
            raise StoreClosed(msg)
        if self._one_loop and self._loop is not (loop := asyncio.get_running_loop()):
            if self._loop is not None:
                msg = (
                    f"{self._what} was connected in another event loop, and its connections belong to that one. "
                    "Use it there, or connect again in this loop."
                )
                raise StoreUnusable(msg)
            self._loop = loop

    def shut(self) -> bool:
        """From now on nobody gets in. False in a fork, which has nothing to let go of: all of it is its parent's."""
        if self.is_elsewhere:
            return False
        self._shut = True
        return True
