"""What PostgreSQL's and the driver's errors mean to a user."""

from __future__ import annotations

import socket
import ssl

import asyncpg

from tenure.errors import InvalidInput, StoreError, StoreFull, StoreTooNew, StoreUnavailable, StoreUnusable

CONFLICTS = ("40001", "40P01", "23505")
"""Two transactions were in each other's way, or wrote the same, and this one was undone: it can be made again at once."""

_AWAY = {
    "08": "the connection was lost",
    "53": "the server is at a limit",
    "57P01": "the server is shutting down",
    "57P02": "the server has crashed",
    "57P03": "the server is starting up or shutting down",
    "57014": "the statement took longer than the server's statement_timeout",
    "55P03": "a lock could not be had within the server's lock_timeout",
    "25006": "the server only takes reads, as after a failover",
    "40": "other transactions kept being in the way",
    "58": "the server has trouble with its files",
    "XX": "the server has an internal problem",
}
_GRANT = "Grant this user what Tenure needs: usage of its schema, and all rights on its tables and on its sequence."
_UNUSABLE = {
    "08P01": "Behind a pooler like PgBouncer, add poll_only=true to the address.",
    "28": "Check the user and the password in the address, and the server's pg_hba.conf.",
    "3D000": "Create the database, or name another one in the address.",
    "42501": _GRANT,
    "42P01": "The schema is not set up, or was changed by hand. Run: tenure migrate",
    "3F000": "The schema is not set up, or was changed by hand. Run: tenure migrate",
    "42703": "The schema was changed by hand, or by another version of Tenure. Run: tenure migrate",
}

Trouble = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Everything that the driver raises when something is wrong with the connection or the server."""


def explained(error: BaseException, where: str) -> StoreError:
    """The error in words that say what to do. The password is never among them."""
    if isinstance(error, StoreError):
        return error
    code = getattr(error, "sqlstate", None) or ""
    if code == "53100":
        return StoreFull(f"No room left on the disk of PostgreSQL at {where}. Nothing was written; free some space.")
    if advice := _looked_up(_UNUSABLE, code):
        return StoreUnusable(f"PostgreSQL at {where} refuses: {error}. {advice}")
    if meaning := _looked_up(_AWAY, code):
        return StoreUnavailable(f"PostgreSQL at {where}: {meaning} ({error}).")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"PostgreSQL at {where} did not answer in time.")
    if isinstance(error, socket.gaierror):
        return StoreUnavailable(f"The host of PostgreSQL at {where} is unknown ({error.strerror}). Check the address.")
    if isinstance(error, ssl.SSLError):
        return StoreUnavailable(f"No encrypted connection to PostgreSQL at {where}: {error.reason or error}.")
    if isinstance(error, OSError):
        return StoreUnavailable(f"PostgreSQL at {where} cannot be reached: {error.strerror or error}.")
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return StoreUnavailable(f"The connection to PostgreSQL at {where} is gone: {error}.")
    return StoreUnusable(f"PostgreSQL at {where} refuses: {error} (code {code}).")


def misused(error: Exception, where: str) -> InvalidInput | StoreUnusable | None:
    """What is wrong with a user's own connection, if it is that; all else is for those who know the rest of its transaction."""
    # SQLAlchemy wraps what a driver raises; psycopg shows the place in the statement on lines of their own.
    raised = getattr(error, "orig", error)
    code, said = getattr(raised, "sqlstate", None), str(raised).partition("\n")[0]
    if code in ("3F000", "42P01"):
        return InvalidInput(
            f"connection= leads to a database without the tables of this queue ({said}), which are at {where}. "
            "Nothing was submitted; use a connection to the same database."
        )
    if code == "42501":
        return StoreUnusable(f"The user of connection= may not submit to the queue at {where}: {said}. {_GRANT}")
    if code == "25P02":
        return InvalidInput(
            "The transaction on connection= has failed in an earlier statement, and takes no more. Nothing was submitted; "
            "undo the transaction, or go back to a savepoint from before that statement, and submit then."
        )
    return None


def ends_connection(error: BaseException) -> bool:
    """Whether the connection is better not used again: it is broken, or it leads to the wrong server."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        return code.startswith(("08", "57P", "53", "25006", "XX"))
    return True


def too_new(where: str, version: int, known: int) -> StoreTooNew:
    """The schema was made by a newer Tenure."""
    return StoreTooNew(
        f"The schema at {where} has version {version}; this Tenure knows versions up to {known}. "
        "It was made by a newer Tenure: upgrade this installation. Nothing was changed."
    )


def _looked_up(table: dict[str, str], code: str) -> str | None:
    return table.get(code) or table.get(code[:3]) or table.get(code[:2])
