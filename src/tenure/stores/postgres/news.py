"""Waking up when something was written: PostgreSQL's NOTIFY, listened for on a connection that is kept alive.

It is an optimisation over the caller's poll. Whoever sends looks whether anybody listens, so a
busy queue sends nothing; a listener says so in the table `listeners` while somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

from tenure.errors import StoreError
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.connections import Connection, open_connection
from tenure.stores.postgres.records import Statements, log
from tenure.stores.postgres.trouble import Trouble

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
PATIENCE = 2.0
"""Seconds after the last wait for which the news is still wanted: a worker that gets a task soon waits again."""
SIGN_OF_LIFE = 120.0
POLL_FIRST, POLL_LONGEST = 0.02, 0.5
TICK = 1.0


class News:
    """Counts what was written, by us or by others, and wakes whoever waits for it."""

    def __init__(self, address: Address, statements: Statements) -> None:
        self._address, self._statements = address, statements
        self._name = secrets.token_hex(8)
        self._sleepers: set[asyncio.Future[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._nudge = asyncio.Event()
        self._registered_at: float | None = None
        self._last_wait = self._last_news = time.monotonic()
        self._closed = False
        self.count = 0

    def arrived(self) -> None:
        """Something was written."""
        self.count += 1
        self._last_news = time.monotonic()
        self._wake()

    async def wait(self, mark: object, seconds: float) -> None:
        """Return when something was written since the mark, or when the time is over; sometimes earlier."""
        if self._closed or self.count != mark or seconds <= 0:
            return
        self._last_wait = time.monotonic()
        if self._address.poll_only:
            seconds = min(seconds, self._patience())
        elif self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="tenure-news")
        elif self._registered_at is None:
            self._nudge.set()
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            await asyncio.wait([sleeper], timeout=seconds)
        finally:
            self._sleepers.discard(sleeper)
            self._last_wait = time.monotonic()

    async def close(self) -> None:
        """Stop listening, and let everyone go."""
        self._closed = True
        self._wake()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def _patience(self) -> float:
        """Without news, look often while things happen and seldom when nothing does."""
        return min(max((time.monotonic() - self._last_news) / 20, POLL_FIRST), POLL_LONGEST)

    def _wake(self) -> None:
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    async def _listen(self) -> None:
        """Keep a listening connection, whatever happens to it."""
        pause = FIRST_PAUSE
        while True:
            try:
                connection = await open_connection(self._address)
                pause = FIRST_PAUSE
                await self._stay(connection)
            except (StoreError, *Trouble) as error:
                log.debug("not listening for news, polling instead: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _stay(self, connection: Connection) -> None:
        """Listen until the connection ends; say so to the senders while somebody waits."""
        connection.add_termination_listener(lambda _: self._nudge.set())
        try:
            await connection.add_listener(self._statements.channel, lambda *_: self.arrived())
            while not connection.is_closed():
                self._nudge.clear()
                await self._register(connection)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK):
                        await self._nudge.wait()
        finally:
            self._registered_at = None
            await self._leave(connection)

    async def _register(self, connection: Connection) -> None:
        now = time.monotonic()
        wanted = bool(self._sleepers) or now - self._last_wait < PATIENCE
        if wanted and (self._registered_at is None or now - self._registered_at > SIGN_OF_LIFE):
            await connection.execute(self._statements("listen"), self._name)
            new, self._registered_at = self._registered_at is None, now
            if new:
                # What was written before anybody knew that we listen was not sent to us: look once more.
                self.arrived()
        elif not wanted and self._registered_at is not None:
            self._registered_at = None
            await connection.execute(self._statements("unlisten"), self._name)

    async def _leave(self, connection: Connection) -> None:
        if not connection.is_closed():
            with contextlib.suppress(*Trouble):
                async with asyncio.timeout(1):
                    await connection.execute(self._statements("unlisten"), self._name)
                    await connection.close()
        connection.terminate()
