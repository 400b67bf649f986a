"""The schema's own versions: forward only, once, however many start together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.stores.postgres.address import Address
from tenure.stores.postgres.connections import Connection, open_connection
from tenure.stores.postgres.records import PACKAGE, in_schema
from tenure.stores.postgres.trouble import Trouble, explained, too_new
from tenure.stores.sql import migrations

if TYPE_CHECKING:
    from tenure.stores.postgres.connections import Connections

_HEAD = """
CREATE SCHEMA IF NOT EXISTS tenure;
CREATE TABLE IF NOT EXISTS tenure.schema_versions (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


async def migrate(connections: Connections, address: Address) -> None:
    """Bring the schema up to date. A look comes first: most starts have nothing to do and need no rights for it."""
    version = await connections.run(lambda db: _version(db, address.schema), in_transaction=False)
    if version == len(migrations(PACKAGE)):
        return
    await connections.run(lambda db: _migrate(db, address))


async def _migrate(db: Connection, address: Address) -> None:
    await db.execute("SELECT pg_advisory_xact_lock(7305796, hashtext($1))", address.schema)
    version = await _version(db, address.schema)
    known = len(migrations(PACKAGE))
    if version > known:
        raise too_new(address.shown, version, known)
    for number, script in enumerate(scripts(address.schema), start=1):
        if number > version:
            await db.execute(script)


def scripts(schema: str) -> list[str]:
    """Every migration, each with the line that records it."""
    head = _HEAD.replace("SCHEMA IF NOT EXISTS tenure;", f'SCHEMA IF NOT EXISTS "{schema}";')
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
