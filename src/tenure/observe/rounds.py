"""Looking after something now and then, in a process that has nobody for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

SOON, SELDOM = 2.0, 15.0

Look = Callable[[], Awaitable[bool | None]]
"""Tells whether it was worth while; None when there is nothing left to look after."""


class Rounds:
    """Looks on the loop that runs, after a moment, and again as long as there is something left.

    Between two looks there is a timer and no task, so nobody waits for it: neither a loop that ends nor its process.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def begin(self, look: Look) -> None:
        """See to it that somebody looks. A loop that has ended, or that a fork has left behind, looks no more."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._wait(look, SOON)

    async def end(self) -> None:
        """Look no more."""
        if self._loop is not asyncio.get_running_loop():
            return
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def _wait(self, look: Look, pause: float) -> None:
        # Of no context: what it asks is no part of the attempt or the trace in which it was begun.
        self._timer = asyncio.get_running_loop().call_later(pause, self._start, look, pause, context=Context())

    def _start(self, look: Look, pause: float) -> None:
        if self._loop is asyncio.get_running_loop():
            self._looking = asyncio.create_task(self._look(look, pause), name="tenure-rounds")

    async def _look(self, look: Look, pause: float) -> None:
        loop, worth_while = self._loop, None
        try:
            worth_while = await look()
        finally:
            if self._loop is loop:
                if worth_while is None:
                    self._loop = None
                else:
                    self._wait(look, SOON if worth_while else min(pause * 2, SELDOM))
