"""Many rows in few statements.

Python's sqlite3 gives up the interpreter lock for each step of each statement, and a thread
that computes takes up to five milliseconds to hand it back. A transaction of a thousand
small statements beside one busy thread would therefore hold the file's write lock for
seconds. So a batch is one statement with many rows, and a search answers with one row.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

LARGEST = 512


def run_many(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Run a statement that contains `VALUES (?, …)` once for many rows; returns how many rows it changed.

    The rows go in pieces of a power of two, so that a handful of prepared statements serves every size.
    """
    changed = start = 0
    size = LARGEST
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        piece = rows[start : start + size]
        changed += db.execute(repeated(statement, size), list(chain.from_iterable(piece))).rowcount
        start += size
    return changed


@cache
def repeated(statement: str, rows: int) -> str:
    """The statement with its row of parameters written out this many times.

    >>> repeated("INSERT INTO t VALUES (?, ?)", 3)
    'INSERT INTO t VALUES (?, ?), (?, ?), (?, ?)'
    """
    return re.sub(r"VALUES (\([?, ]+\))", lambda match: f"VALUES {', '.join([match[1]] * rows)}", statement)
