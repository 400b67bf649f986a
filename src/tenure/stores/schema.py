"""The schema of stores that have one: its version, and the scripts that lead to it."""

from __future__ import annotations

from tenure.errors import InvalidInput
from tenure.stores.options import separated


async def versions(url: str) -> tuple[int, int]:
    """The version that the store has now, and the newest one. Nothing is changed."""
    return await _version_of(url), len(scripts(url))


async def _version_of(url: str) -> int:
    if _kind(url) == "sqlite":
        from tenure.stores import sqlite_path
        from tenure.stores.sqlite.connection import schema_version as version_of_file

        return version_of_file(sqlite_path(url))
    from tenure.stores.postgres.address import read_address
    from tenure.stores.postgres.migrating import schema_version

    return await schema_version(read_address(url))


def scripts(url: str) -> list[str]:
    """Every migration in order, each with the line that records it."""
    if _kind(url) == "sqlite":
        from tenure.stores.sqlite.connection import scripts as scripts_for_file

        return scripts_for_file()
    from tenure.stores.postgres.address import read_address
    from tenure.stores.postgres.migrating import scripts as scripts_for_schema

    return scripts_for_schema(read_address(url).schema)


def _kind(url: str) -> str:
    if len(separated(url)) > 1:
        msg = "These are several stores. Name one at a time with --url; connecting brings all of them up to date."
        raise InvalidInput(msg)
    scheme = url.partition(":")[0].lower()
    if scheme not in ("sqlite", "postgresql", "postgres"):
        msg = f"A store of the kind {scheme!r} has no SQL schema."
        raise InvalidInput(msg)
    return scheme
