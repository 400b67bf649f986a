"""Rows and records: reading tasks, and the text of statements."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Container, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Protocol

import msgspec

from tenure import lifecycle
from tenure.errors import CannotClaim, DamagedRecord
from tenure.payload import NULL
from tenure.stores import sql
from tenure.stores.postgres.address import DEFAULT_SCHEMA
from tenure.task import Progress, Task, TaskStatus, decode

PACKAGE = "tenure.stores.postgres"
DAMAGED = "damaged"
ANOTHER = "it is another one than its row says"

log = logging.getLogger("tenure.store")
_progress_decoder = msgspec.json.Decoder(Progress)
_LONGEST = timedelta(days=3_652_059)
"""As many days as a calendar has."""
_LONGEST_KEY = 500
"""Characters; an entry of an index takes up to 2700 bytes, and a character up to four."""


class Database(Protocol):
    """A connection with an open transaction, of whichever driver."""

    async def fetch(self, query: str, /, *values: Any) -> Sequence[Any]:
        """The rows of one statement, each a sequence of values."""


class Statements:
    """The texts of `sql/*.sql` for one schema: `tenure` in them stands for its name."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.channel = in_schema("tenure.news", schema)

    def __call__(self, name: str) -> str:
        """The text of `sql/<name>.sql`."""
        return _statement(name, self.schema)


@cache
def _statement(name: str, schema: str) -> str:
    return in_schema(sql.statement(PACKAGE, name), schema)


def in_schema(text: str, schema: str) -> str:
    """A text about the schema `tenure` as one about another schema."""
    return text.replace(f"{DEFAULT_SCHEMA}.", f'"{schema}".')


def read(record: bytes, task_id: str, *versions: int) -> Task:
    """The record of a row with this id, and of one of these versions."""
    task = decode(record, task_id)
    if task.id != task_id or task.version not in versions:
        raise DamagedRecord(task_id, ANOTHER)
    return task


def load(row: Any) -> Task:
    """A row of `everything` as a task.

    The completion of a claim stands in columns only, as the claim does: both are made again, by the same rules.
    """
    ended_at, finished_by, output = row[9:12]
    if finished_by is None:
        return load_open(row)
    version = row[2]
    task = read(row[1], plain(row[0]), version - 1, version - 2)
    if task.version < version - 1:
        task = lifecycle.claim(
            task, worker_id=plain(finished_by), now=row[6], lease=timedelta(0), policy_max=row[7]
        )  # fmt: skip
    return lifecycle.complete(task, task.fence, NULL if output is None else msgspec.Raw(output), ended_at)


def load_open(row: Any) -> Task:
    """A row of an open task.

    A claim stands in columns only: it is made again, by the same rule, on the record from before.
    While a task runs, lease and progress are newer in their columns than in the record.
    """
    task_id, record, version, lease_end, progress, worker_id, claimed_at, policy_max = row[:8]
    if worker_id is None:
        return read(record, plain(task_id), version)
    task = read(record, plain(task_id), version, version - 1)
    if task.version < version:
        try:
            task = lifecycle.claim(
                task, worker_id=plain(worker_id), now=claimed_at, lease=timedelta(0), policy_max=policy_max
            )
        except CannotClaim as error:
            raise DamagedRecord(task.id, str(error)) from None
    if task.status is not TaskStatus.Running:
        return task
    return msgspec.structs.replace(
        task,
        lease_expires_at=lease_end,
        progress=task.progress if progress is None else _progress_decoder.decode(progress),
    )


def column(text: str) -> str:
    r"""A text as PostgreSQL can store it, which has no zero characters.

    >>> column("a\0b"), column("plain"), column("back\\slash")
    ('a\\0b', 'plain', 'back\\\\slash')
    """
    if "\0" in text or "\\" in text:
        return text.replace("\\", "\\\\").replace("\0", "\\0")
    return text


def plain(text: str) -> str:
    r"""The text behind `column`.

    >>> plain(column("a\0\\0b")) == "a\0\\0b"
    True
    """
    if "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def key_column(text: str) -> str:
    """A key that may be longer than an index of PostgreSQL can hold: then by its beginning and a hash.

    >>> key_column("user-42"), len(key_column("x" * 1000))
    ('user-42', 164)
    """
    text = column(text)
    return text if len(text) <= _LONGEST_KEY else text[:100] + hashlib.sha256(text.encode()).hexdigest()


def micros(lease: timedelta) -> int:
    """A lease in microseconds, as far as a calendar goes."""
    return min(lease, _LONGEST) // timedelta(microseconds=1)


def columns(rows: Sequence[Sequence[Any]], width: int, once: Container[int] = ()) -> list[tuple[Any, ...] | None]:
    """Rows as one array per column, which is how a statement takes many of them.

    A column without a value in any row is sent as no array at all, which means the same and costs nothing.
    Of the columns that are named in `once`, what is the same in all rows is sent once: the statement knows.
    """
    if not rows:
        return [()] * width
    arrays: list[tuple[Any, ...] | None] = []
    for number, values in enumerate(zip(*rows, strict=True)):
        first = values[0]
        alike = (first is None or number in once) and all(value is first for value in values)
        arrays.append(values if not alike else None if first is None else (first,))
    return arrays


def optional_key(text: str | None) -> str | None:
    """Like `key_column`, for what may be absent."""
    return None if text is None else key_column(text)


Clock = datetime | None
"""A time that a test's clock gave, or None for the server's own."""
