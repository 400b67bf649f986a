"""A few connections to the server, opened when first needed and opened anew when they break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from tenure.errors import StoreUnavailable
from tenure.stores.door import Door
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.trouble import CONFLICTS, Trouble, ends_connection, explained

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

T = TypeVar("T")

CONNECT_PATIENCE = 10.0
TRIES = 5

_SETTINGS = {
    # A plan made while a table was small is kept while it grows; one that reads whole tables must never be among them.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # The plans of these statements do not depend on their values: plan each once for a connection.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


async def open_connection(address: Address, kind: type[Connection] | None = None) -> Connection:
    """One connection; whatever goes wrong is said in words that help. One of another kind has the server's own settings."""
    # A pooler hands the server's connections round between transactions: no settings and no statements stay on them.
    pooled = address.poll_only
    try:
        return await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_PATIENCE,
            command_timeout=address.timeout,
            statement_cache_size=0 if pooled else 200,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            connection_class=kind or asyncpg.Connection,
            server_settings={} if pooled or kind else dict(_SETTINGS),
        )
    except Trouble as error:
        raise explained(error, address.shown) from error
    except ValueError as error:
        msg = f"The address of PostgreSQL at {address.shown} cannot be read: {error}."
        raise StoreUnavailable(msg) from error


class Connections:
    """Lends out at most `limit` connections at a time, the one used last first."""

    def __init__(self, address: Address, limit: int) -> None:
        self._address = address
        self._room = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self.door = Door(f"The queue on PostgreSQL at {address.shown}", one_loop=True)

    @contextlib.asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """A connection for the length of the block. One that fails in it is thrown away."""
        self.door.check()
        async with self._room:
            connection = await self._take()
            self._lent.add(connection)
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, Trouble) and not ends_connection(error):
                    self._give_back(connection)
                elif isinstance(error, Trouble) or not isinstance(error, Exception):
                    connection.terminate()
                else:
                    self._give_back(connection)
                raise
            else:
                self._give_back(connection)
            finally:
                self._lent.discard(connection)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, in_transaction: bool = True) -> T:
        """Do some work that can be repeated when others were in the way; errors come out explained."""
        for number in range(TRIES):
            try:
                async with self.lend() as connection:
                    # Through a pooler, only a transaction keeps a statement's steps on one connection of the server.
                    if in_transaction or self._address.poll_only:
                        async with connection.transaction():
                            return await work(connection)
                    return await work(connection)
            except Trouble as error:
                if getattr(error, "sqlstate", None) in CONFLICTS and number + 1 < TRIES:
                    continue
                # A call that our own close has cut off is no trouble of the server's.
                self.door.check()
                raise explained(error, self._address.shown) from error
        raise AssertionError

    async def fetch(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        """One statement, which is a transaction by itself."""
        return await self.run(lambda connection: connection.fetch(statement, *values), in_transaction=False)

    async def close(self) -> None:
        """Close what is idle, and cut off what is not."""
        if not self.door.shut():
            return
        idle, self._idle = self._idle, []
        for connection in self._lent:
            connection.terminate()
        for connection in idle:
            with contextlib.suppress(*Trouble):
                await connection.close(timeout=1)

    async def _take(self) -> Connection:
        while True:
            self.door.check()
            if not self._idle:
                return await open_connection(self._address)
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection

    def _give_back(self, connection: Connection) -> None:
        if self.door.is_shut or connection.is_closed():
            connection.terminate()
        else:
            self._idle.append(connection)
