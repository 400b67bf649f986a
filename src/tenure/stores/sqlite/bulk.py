"""Many rows in few statements.

Python's sqlite3 gives up the interpreter lock for each step of each statement, and a thread
that computes takes up to five milliseconds to hand it back. A transaction of a thousand
small statements beside one busy thread would therefore hold the file's write lock for
seconds. So a batch is one statement with many rows, and a search answers with one row.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import msgspec

LARGEST = 512
_ROW = re.compile(r"VALUES (\((?:[^()]|\([^()]*\))*\))")

T = TypeVar("T")


def run_many(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Run a statement that contains `VALUES (?, …)` once for many rows; returns how many rows it changed."""
    changed = 0
    for piece in pieces(rows):
        changed += run_once(db, statement, piece).rowcount
    return changed


def run_once(
    db: sqlite3.Connection, statement: str, piece: Sequence[tuple[Any, ...]], common: Sequence[Any] = ()
) -> sqlite3.Cursor:
    """The same for one piece; `common` are the numbered parameters, which all its rows share."""
    return db.execute(repeated(statement, len(piece)), list(chain(common, *piece)))


def listed(values: Sequence[int] | Sequence[str]) -> str:
    """Numbers or ids as the JSON array that a statement takes with `json_each`.

    >>> listed([1, 2]), listed(["a"])
    ('[1,2]', '["a"]')
    """
    return msgspec.json.encode(values).decode()


def pieces(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """In pieces of a power of two, so that a handful of prepared statements serves every size.

    >>> [len(piece) for piece in pieces(range(1030))]
    [512, 512, 4, 2]
    """
    start = 0
    while left := len(rows) - start:
        size = min(1 << left.bit_length() - 1, LARGEST)
        yield rows[start : start + size]
        start += size


@cache
def repeated(statement: str, rows: int) -> str:
    """The statement with its row of parameters written out this many times.

    >>> repeated("INSERT INTO t VALUES (?, nullif(?, 0))", 2)
    'INSERT INTO t VALUES (?, nullif(?, 0)), (?, nullif(?, 0))'
    """
    return _ROW.sub(lambda match: f"VALUES {', '.join([match[1]] * rows)}", statement)
