"""Opening the file, and what SQLite's errors mean to a user."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tenure.errors import StoreError, StoreFull, StoreTooNew, StoreUnavailable, StoreUnusable
from tenure.stores.sql import migrations
from tenure.stores.sqlite import hurry

PACKAGE = "tenure.stores.sqlite"
OLDEST = (3, 38, 0)
"""The oldest SQLite with all that is used: STRICT tables, UPDATE … FROM, RETURNING, and JSON in the box."""
LOCK_PATIENCE = 60.0
"""Seconds that a write waits for other processes. Each holds the lock for milliseconds, so this is never short."""

_AGAINST_THE_SCHEMA = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH)
"""The statement does not fit the tables, whenever it is made."""

_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
"""

T = TypeVar("T")


class Connection(sqlite3.Connection):
    """Whoever comes back from a statement goes on soon, also beside a thread that computes."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        hurry.leave(self)
        try:
            return super().execute(*arguments)
        finally:
            hurry.arrive(self)


def open_connection(path: Path) -> sqlite3.Connection:
    """A connection with durable settings. Commits reach the disk before they return."""

    def attempt() -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256, factory=Connection
        )
        try:
            for pragma in _PRAGMAS.strip().splitlines():
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    if sqlite3.sqlite_version_info < OLDEST:
        msg = (
            f"This Python comes with SQLite {sqlite3.sqlite_version}; Tenure needs {'.'.join(map(str, OLDEST))} or newer. "
            "Use a newer Python or system library, or another store."
        )
        raise StoreUnusable(msg)
    if not path.parent.is_dir():
        msg = f"Cannot open {path}: the folder {path.parent} does not exist. Create it, or choose another file."
        raise StoreUnusable(msg)
    _create_private(path)
    return patiently(attempt, path)


def _create_private(path: Path) -> None:
    """A new file is for its owner, and for its group as far as the umask says; never for everyone.

    SQLite gives the files beside it the same permissions. A file that exists keeps its own.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o660))


def patiently(attempt: Callable[[], T], path: Path) -> T:
    """Try until the file is not locked by another process; "database is locked" never leaves this function."""
    longest, waited = 0.0005, 0.0
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if not is_busy(error) or waited > LOCK_PATIENCE:
                raise explained(error, path) from error
        pause = longest * random.random()  # noqa: S311 - spreading competitors, not hiding secrets
        time.sleep(pause)
        # Not by the clock: a process that stood still for a minute has not waited, and whoever has the lock may have stood still with it.
        waited += pause
        longest = min(longest * 1.5, 0.01)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None when it leads to none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the time of the other way, and it is done for every commit
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection is in the way for the moment."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: BaseException | None) -> bool:
    """Whether there was no room to write."""
    return isinstance(error, StoreFull) or (
        isinstance(error, sqlite3.Error) and _primary_code(error) == sqlite3.SQLITE_FULL
    )


def explained(error: sqlite3.Error, path: Path) -> StoreError:
    """SQLite's error in words that say what to do."""
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"No room left on the disk of {path}. Nothing was written; free some space and try again.")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreUnusable(f"{path} is not an SQLite database. Choose another file; this one was not touched.")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreUnusable(
            f"{path} is damaged ({error}). Stop all workers, keep a copy, and recover it with the sqlite3 shell's .recover."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnusable(
            f"Cannot open {path} ({error}). Check that the folder exists and that you may write there."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreUnusable(
            f"{path} cannot be written ({error}). Tenure needs write access to the file and its folder."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(
            f"Another process has held the write lock of {path} for over {LOCK_PATIENCE:.0f} s. "
            "Look for a program with an open transaction on this file."
        )
    if code in _AGAINST_THE_SCHEMA or isinstance(error, sqlite3.ProgrammingError):
        return StoreUnusable(
            f"SQLite refuses to work on {path}: {error}. Trying again will not help. "
            "Were the tables named tenure_… changed by hand, or by another program?"
        )
    return StoreUnavailable(f"SQLite could not work on {path}: {error}")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date, once, however many processes start together."""
    scripts = migrations(PACKAGE)

    def attempt() -> None:
        if _version(connection) == len(scripts):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            if version > len(scripts):
                msg = (
                    f"{path} has schema version {version}; this Tenure knows versions up to {len(scripts)}. "
                    "It was written by a newer Tenure: upgrade this installation. The file was not touched."
                )
                raise StoreTooNew(msg)
            connection.execute("CREATE TABLE IF NOT EXISTS tenure_schema (version INTEGER PRIMARY KEY)")
            for number, script in enumerate(scripts[version:], start=version + 1):
                for statement in split(script):
                    connection.execute(statement)
                connection.execute("INSERT INTO tenure_schema (version) VALUES (?)", (number,))
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    patiently(attempt, path)


def about(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """Versions, place and size of the file."""
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    return {
        "store": f"SQLite {sqlite3.sqlite_version}",
        "file": str(path.absolute()),
        "size": f"{path.stat().st_size / 1e6:.1f} MB",
        "schema": f"version {_version(connection)} of {len(migrations(PACKAGE))}",
        "journal": journal,
    }


def scripts() -> list[str]:
    """Every migration, each with the line that records it."""
    head = "CREATE TABLE IF NOT EXISTS tenure_schema (version INTEGER PRIMARY KEY);"
    return [
        f"-- version {number}\n{head}\n{script.rstrip()}\nINSERT INTO tenure_schema (version) VALUES ({number});\n"
        for number, script in enumerate(migrations(PACKAGE), start=1)
    ]


def schema_version(path: Path) -> int:
    """The version that a file has now, without changing anything; 0 for a file that is not there."""
    if not path.exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return _version(connection)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def split(script: str) -> list[str]:
    """The statements of a migration. None of them contains a semicolon of its own."""
    lines = [line.split("--", 1)[0] for line in script.splitlines()]
    return [statement for part in "\n".join(lines).split(";") if (statement := part.strip())]


def _version(connection: sqlite3.Connection) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'tenure_schema'").fetchone()
    if not known:
        return 0
    newest: int | None = connection.execute("SELECT max(version) FROM tenure_schema").fetchone()[0]
    return newest or 0


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
