"""The objects that hold tasks, as they are in memory and as JSON.

A segment holds open tasks (and ended ones until they are tidied away), a pack holds ended ones.
Both are the same kind of object.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from tenure.errors import DamagedRecord
from tenure.task import FORMAT, Task
from tenure.task import decode as decode_task

replace = msgspec.structs.replace


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A task, with the number that tells when it was submitted."""

    order: int
    task: Task


class Segment(msgspec.Struct, frozen=True):
    """One version of an object with tasks.

    `arriving` names the tasks that are on their way here, and where from. In a segment such a
    task counts only once the place that it comes from says in `moved` that it went here. In a
    pack it counts once it is gone from there. A `closed` pack takes no more.
    """

    name: str
    etag: str
    entries: Mapping[str, Entry]
    moved: Mapping[str, str] = {}
    arriving: Mapping[str, str] = {}
    since: datetime | None = None
    closed: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing in it is open any more."""
        return not self.arriving and all(entry.task.status.ended for entry in self.entries.values())

    def tasks(self) -> Iterator[Entry]:
        """The tasks that are here for certain."""
        if not self.arriving:
            return iter(self.entries.values())
        return (entry for task_id, entry in self.entries.items() if task_id not in self.arriving)

    def entry(self, task_id: str) -> Entry | None:
        """The task, if it is here for certain."""
        return None if task_id in self.arriving else self.entries.get(task_id)

    def with_tasks(self, tasks: Iterable[Task]) -> Segment:
        """The next version, with newer versions of some tasks."""
        entries = dict(self.entries)
        for task in tasks:
            entries[task.id] = Entry(entries[task.id].order, task)
        return replace(self, entries=entries)

    def without(self, ids: Iterable[str]) -> Segment:
        entries = dict(self.entries)
        for task_id in ids:
            entries.pop(task_id, None)
        return replace(self, entries=entries)


class _Body(msgspec.Struct, omit_defaults=True):
    """The JSON form. The nonce makes every version's tag its own, also when the rest is as before."""

    format: int
    nonce: str
    tasks: list[Entry]
    moved: Mapping[str, str] = {}
    arriving: Mapping[str, str] = {}
    since: datetime | None = None
    closed: bool = False


class _RawEntry(msgspec.Struct):
    order: int
    task: msgspec.Raw


class _RawBody(_Body):
    tasks: list[_RawEntry]  # type: ignore[assignment]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode
_decode_patiently = msgspec.json.Decoder(_RawBody).decode


def fresh_nonce() -> str:
    """What no other body has."""
    return secrets.token_hex(12)


def encode(segment: Segment, nonce: str) -> bytes:
    """The JSON form of a version."""
    return _encode(
        _Body(
            FORMAT,
            nonce,
            list(segment.entries.values()),
            segment.moved,
            segment.arriving,
            segment.since,
            segment.closed,
        )
    )


def decode(name: str, etag: str, body: bytes) -> Segment:
    """Read an object; one that cannot be read is an error that names it."""
    try:
        found = _read(name, body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRecord(name, str(error)) from None
    if found.format > FORMAT:
        raise DamagedRecord(name, f"written in format {found.format} by a newer Tenure; this one reads up to {FORMAT}")
    entries = {entry.task.id: entry for entry in found.tasks}
    return Segment(name, etag, entries, found.moved, found.arriving, found.since, found.closed)


def _read(name: str, body: bytes) -> _Body:
    try:
        return _decode(body)
    except msgspec.ValidationError:
        # Tasks with fields of a newer version are read one by one; those fields stay with them.
        patient = _decode_patiently(body)
        tasks = [Entry(entry.order, decode_task(entry.task, name)) for entry in patient.tasks]
        return _Body(
            patient.format, patient.nonce, tasks, patient.moved, patient.arriving, patient.since, patient.closed
        )
