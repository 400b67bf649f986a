"""The user's own connection, of whichever driver, for writes inside the user's transaction."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg

from tenure.errors import InvalidInput
from tenure.stores.postgres.records import Database


@contextlib.asynccontextmanager
async def borrowed(connection: Any) -> AsyncIterator[Database]:
    """The connection, inside a savepoint of the transaction that is open on it.

    What goes wrong in the block is undone without harm to the rest of the transaction. A
    connection that commits each statement by itself gets a transaction for the block.
    """
    if isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        async with connection.transaction():
            yield connection
        return
    if _is_of("sqlalchemy", connection):
        async with borrowed(await _under(connection)) as database:
            yield database
    elif _is_of("psycopg", connection) and hasattr(connection, "cursor"):
        async with _psycopg(connection) as database:
            yield database
    else:
        raise _unknown(connection)


def _is_of(library: str, connection: Any) -> bool:
    """Whether its class, or one that it is made from, is one of the library, which need not be installed."""
    return any(each.__module__.partition(".")[0] == library for each in type(connection).__mro__)


def _unknown(connection: Any) -> InvalidInput:
    return InvalidInput(
        f"connection={connection!r} is none that Tenure knows. Known: connections of asyncpg and psycopg 3, "
        "and sessions (scoped ones too) and connections of SQLAlchemy over these."
    )


@contextlib.asynccontextmanager
async def _psycopg(connection: Any) -> AsyncIterator[Database]:
    import psycopg

    asynchronous = isinstance(connection, psycopg.AsyncConnection)
    database: _PsycopgAsync | _PsycopgBlocking = (
        _PsycopgAsync(connection) if asynchronous else _PsycopgBlocking(connection)
    )
    if not connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        # A block that begins a transaction would also commit it. The user's own is begun by any statement.
        await database.fetch("SELECT 1")
    try:
        if asynchronous:
            async with connection.transaction():
                yield database
        else:
            with connection.transaction():
                yield database
    except asyncpg.SerializationError as error:
        # Whoever makes a transaction again does so for the errors of the driver that is used.
        raise psycopg.errors.SerializationFailure(str(error)) from error


class _PsycopgAsync:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, /, *values: Any) -> Sequence[Any]:
        import psycopg

        async with psycopg.AsyncRawCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            _read_unicode(cursor)
            await cursor.execute(query.encode(), _arrays(values))
            return await cursor.fetchall() if cursor.description else []


class _PsycopgBlocking:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, query: str, /, *values: Any) -> Sequence[Any]:
        return await asyncio.to_thread(self._fetch, query, values)

    def _fetch(self, query: str, values: tuple[Any, ...]) -> Sequence[Any]:
        import psycopg

        with psycopg.RawCursor(self._connection, row_factory=psycopg.rows.tuple_row) as cursor:
            _read_unicode(cursor)
            cursor.execute(query.encode(), _arrays(values))
            return cursor.fetchall() if cursor.description else []


def _read_unicode(cursor: Any) -> None:
    """Of a database without an encoding, psycopg would give texts as bytes."""
    if cursor.connection.info.encoding != "ascii":
        return
    from psycopg.adapt import Loader

    class Unicode(Loader):
        def load(self, data: Any) -> str:
            return bytes(data).decode()

    cursor.adapters.register_loader("text", Unicode)


def _arrays(values: tuple[Any, ...]) -> list[Any]:
    """To psycopg, an array is a list; a tuple would be a row."""
    return [list(value) if isinstance(value, tuple) else value for value in values]


async def _under(connection: Any) -> Any:
    """The driver's connection under a session or connection of SQLAlchemy, with its transaction begun."""
    from sqlalchemy import Connection, text
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    given = connection
    if isinstance(connection, scoped_session | async_scoped_session):
        if not connection.registry.has():
            # It would make another session here, whose transaction nobody commits.
            msg = (
                f"connection={connection!r} has no session in this scope: none was used yet, or it belongs to another "
                "thread or task. Hand over the session itself: connection=scoped()"
            )
            raise InvalidInput(msg)
        connection = connection()
    if isinstance(connection, AsyncSession):
        connection = await connection.connection()
    if isinstance(connection, Session):
        connection = connection.connection()
    if not isinstance(connection, AsyncConnection | Connection):
        raise _unknown(given)
    # SQLAlchemy begins a transaction with the first statement that goes through it.
    if isinstance(connection, AsyncConnection):
        await connection.execute(text("SELECT 1"))
        return (await connection.get_raw_connection()).driver_connection
    connection.execute(text("SELECT 1"))
    return connection.connection.driver_connection
