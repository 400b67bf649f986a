"""Connections that handlers write on: each is handed out like a new one, and what a handler keeps of it is dead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg

from tenure.stores.door import Door
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.connections import Connection, open_connection
from tenure.stores.postgres.trouble import Trouble

RESET_PATIENCE = 2.0
# Like DISCARD ALL, but the driver's own prepared statements stay.
_RESET = """
    CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all();
    DISCARD TEMP; DISCARD SEQUENCES
"""


class _Marked(Connection):
    """Knows whether somebody has set a codec on it, which no reset takes away."""

    has_codecs = False

    async def set_type_codec(self, *arguments: Any, **options: Any) -> None:
        self.has_codecs = True
        await super().set_type_codec(*arguments, **options)

    async def set_builtin_type_codec(self, *arguments: Any, **options: Any) -> None:
        self.has_codecs = True
        await super().set_builtin_type_codec(*arguments, **options)


class HandedOut:
    """Hands out at most `limit` connections at a time, with the server's own settings."""

    def __init__(self, address: Address, limit: int) -> None:
        self._address, self._limit = address, limit
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._lent: set[Connection] = set()
        self.door = Door(f"The queue on PostgreSQL at {address.shown}", one_loop=True)

    @contextlib.asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """A connection for the length of the block."""
        self.door.check()
        pool = await self._opened()
        try:
            lent = await pool.acquire()
        except Trouble:
            # A call that our own close has cut off is no trouble of the server's.
            self.door.check()
            raise
        connection = cast("Connection", lent)
        self._lent.add(connection)
        try:
            yield connection
        finally:
            self._lent.discard(connection)
            # What cannot be reset is closed; that is no trouble of whoever had it.
            with contextlib.suppress(*Trouble):
                await pool.release(lent, timeout=RESET_PATIENCE)

    async def close(self) -> None:
        """Close what is idle, and cut off what is not."""
        if not self.door.shut() or self._pool is None:
            return
        for connection in list(self._lent):
            with contextlib.suppress(asyncpg.InterfaceError):
                connection.terminate()
        with contextlib.suppress(*Trouble):
            async with asyncio.timeout(1):
                await self._pool.close()

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._pool is None:
            self._pool = asyncpg.create_pool(
                min_size=0,
                max_size=self._limit,
                max_inactive_connection_lifetime=0,
                connect=self._connect,
                reset=self._reset,
            )
        await self._pool
        return self._pool

    async def _connect(self, *_: Any, **__: Any) -> Connection:
        return await open_connection(self._address, _Marked)

    async def _reset(self, connection: Any) -> None:
        if connection.has_codecs:
            await connection.close()
        elif not self._address.poll_only:
            # Through a pooler it would meet another of the server's connections.
            await connection.execute(_RESET)
