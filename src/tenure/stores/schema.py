"""The schema of stores that have one: its version, and the scripts that lead to it."""

from __future__ import annotations

from tenure.errors import InvalidInput
from tenure.stores import sqlite_path
from tenure.stores.sql import migrations


def versions(url: str) -> tuple[int, int]:
    """The version that the store has now, and the newest one. Nothing is changed."""
    package = _package(url)
    from tenure.stores.sqlite.connection import schema_version

    return schema_version(sqlite_path(url)), len(migrations(package))


def scripts(url: str) -> list[tuple[int, str]]:
    """Every migration with its number, each with the line that records it."""
    head = "CREATE TABLE IF NOT EXISTS tenure_schema (version INTEGER PRIMARY KEY);"
    return [
        (
            number,
            f"-- version {number}\n{head}\n{script.rstrip()}\nINSERT INTO tenure_schema (version) VALUES ({number});",
        )
        for number, script in enumerate(migrations(_package(url)), start=1)
    ]


def _package(url: str) -> str:
    if url.startswith("sqlite:"):
        return "tenure.stores.sqlite"
    scheme = url.partition(":")[0]
    msg = f"A store of the kind {scheme!r} has no SQL schema."
    raise InvalidInput(msg)
