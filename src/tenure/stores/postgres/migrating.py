"""The schema's own versions: forward only, once, however many start together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tenure.errors import StoreUnavailable, StoreUnusable
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.connections import Connection, open_connection
from tenure.stores.postgres.records import PACKAGE, in_schema
from tenure.stores.postgres.trouble import Trouble, explained, too_new
from tenure.stores.sql import migrations

if TYPE_CHECKING:
    from tenure.stores.postgres.connections import Connections

TRIES = 30
PAUSE = 1.0
LOCK_PATIENCE = "1s"
ENCODINGS = ("UTF8", "SQL_ASCII")
"""Of the database: the second keeps whatever bytes it gets."""
MAY_NOT = "42501"
LOCKED = "55P03"

# CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas also when it has nothing to create.
_HEAD = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '%(schema)s') THEN
        CREATE SCHEMA "%(schema)s";
    END IF;
END $$;
CREATE TABLE IF NOT EXISTS tenure.schema_versions (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


async def migrate(connections: Connections, address: Address) -> None:
    """Bring the schema up to date. A look comes first: most starts have nothing to do and need no rights for it."""
    version = await connections.run(lambda db: _look(db, address), in_transaction=False)
    if version == len(migrations(PACKAGE)):
        return
    try:
        await _migrate_when_free(connections, address)
    except StoreUnusable as error:
        if getattr(error.__cause__, "sqlstate", None) != MAY_NOT:
            raise
        msg = (
            f"PostgreSQL at {address.shown} refuses: {error.__cause__}. The schema {address.schema!r} has version {version} "
            f"of {len(migrations(PACKAGE))}, and this user may not bring it up to date. Run tenure migrate as its owner, or make "
            f"this user the owner of a new one: CREATE SCHEMA {address.schema} AUTHORIZATION the_user"
        )
        raise StoreUnusable(msg) from error.__cause__


async def _migrate_when_free(connections: Connections, address: Address) -> None:
    for number in range(TRIES):
        try:
            await connections.run(lambda db: _migrate(db, address))
        except StoreUnavailable as error:
            if getattr(error.__cause__, "sqlstate", None) != LOCKED:
                raise
            if number + 1 == TRIES:
                held = await connections.run(lambda db: _longest_holder(db, address.schema), in_transaction=False)
                msg = (
                    f"PostgreSQL at {address.shown}: the schema {address.schema!r} cannot be brought up to date, because "
                    f"one of its tables is in use by {held}. Nothing was changed. End that, or try again when it is over."
                )
                raise StoreUnavailable(msg) from error
            await asyncio.sleep(PAUSE)
        else:
            return


async def _look(db: Connection, address: Address) -> int:
    # A server tells it at connect; what stands between may not pass it on.
    encoding = getattr(db.get_settings(), "server_encoding", ENCODINGS[0])
    if encoding not in ENCODINGS:
        msg = (
            f"The database at {address.shown} is encoded as {encoding}, which cannot hold every name and key. Use one "
            "that is made like this: CREATE DATABASE jobs ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"
        )
        raise StoreUnusable(msg)
    return await _version(db, address.schema)


async def _migrate(db: Connection, address: Address) -> None:
    await db.execute("SELECT pg_advisory_xact_lock(7305796, hashtext($1))", address.schema)
    version = await _version(db, address.schema)
    known = len(migrations(PACKAGE))
    if version > known:
        raise too_new(address.shown, version, known)
    # Whoever comes after a change that waits for its lock waits for it too, so it must not wait for long.
    await db.execute(f"SET LOCAL lock_timeout = '{LOCK_PATIENCE}'")
    for number, script in enumerate(scripts(address.schema), start=1):
        if number > version:
            await db.execute(script)


async def _longest_holder(db: Connection, schema: str) -> str:
    """Who has used tables of the schema for the longest time, in words."""
    holder = await db.fetchrow(
        "SELECT pid, usename, application_name, date_trunc('second', clock_timestamp() - xact_start) AS age,"
        " left(query, 100) AS query FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND pid IN ("
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE granted AND datname = current_database() AND relation IN ("
        "SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1))"
        " ORDER BY xact_start NULLS LAST LIMIT 1",
        schema,
    )
    if holder is None:
        return "a transaction that has ended meanwhile"
    pid, user, program, age, query = holder
    if age is None:
        # The server tells it to the same user, and to whoever has the rights of pg_read_all_stats.
        return f"process {pid} of the server (user {user!r}), whose statements this user may not see"
    return f"process {pid} of the server (user {user!r}, program {program!r}), in a transaction for {age}, last with: {query}"


def scripts(schema: str) -> list[str]:
    """Every migration, each with the line that records it."""
    head = _HEAD % {"schema": schema}
    return [
        in_schema(
            f"-- version {number}\n{head.strip()}\n{script.rstrip()}\n"
            f"INSERT INTO tenure.schema_versions (version) VALUES ({number});\n",
            schema,
        )
        for number, script in enumerate(migrations(PACKAGE), start=1)
    ]


async def schema_version(address: Address) -> int:
    """The version that the schema has now, without changing anything; 0 when there is none."""
    connection = await open_connection(address)
    try:
        return await _version(connection, address.schema)
    except Trouble as error:
        raise explained(error, address.shown) from error
    finally:
        await connection.close(timeout=5)


async def _version(db: Connection, schema: str) -> int:
    # Not to_regclass(): it may answer from memory, from before the lock was waited for.
    found = await db.fetchval(
        "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = $1 AND relname = 'schema_versions'",
        schema,
    )
    if not found:
        return 0
    newest: int | None = await db.fetchval(in_schema("SELECT max(version) FROM tenure.schema_versions", schema))
    return newest or 0
