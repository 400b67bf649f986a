"""The JSON form of objects with tasks.

An object is read in one step. Only when that fails is it read task by task, so that one record which nobody can read,
or which a newer version has written, is no trouble for the others beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.s3.names import holds_tasks, is_pack
from tenure.stores.s3.segments import Entry, Order, Segment, Unread, replace
from tenure.submission import PRIORITY_LIMIT
from tenure.task import FORMAT, UNREADABLE, Task, TaskStatus
from tenure.task import decode as decode_task
from tenure.times import Moment


class _Body(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The JSON form. The nonce makes every version's tag its own, also when the rest is as before."""

    format: int
    nonce: str
    tasks: list[Entry]
    moved: Mapping[str, str] = {}
    arriving: Mapping[str, str] = {}
    since: Moment | None = None
    closed: bool = False


class _PatientBody(msgspec.Struct):
    """The same, if tasks or fields of it cannot be read."""

    format: int
    nonce: str
    tasks: list[msgspec.Raw]
    moved: Mapping[str, str] = {}
    arriving: Mapping[str, str] = {}
    since: Moment | None = None
    closed: bool = False


class _PatientEntry(msgspec.Struct):
    order: Order
    task: msgspec.Raw


class _Id(msgspec.Struct):
    id: str


class _Label(msgspec.Struct):
    task: _Id


_PENDING, _RUNNING = TaskStatus.Pending, TaskStatus.Running
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode
_decode_patiently = msgspec.json.Decoder(_PatientBody).decode
_decode_entry = msgspec.json.Decoder(_PatientEntry).decode
_decode_label = msgspec.json.Decoder(_Label).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def encode(segment: Segment, nonce: str) -> bytes:
    """The JSON form of a version."""
    entries = list(segment.entries.values())
    body = _Body(FORMAT, nonce, entries, segment.moved, segment.arriving, segment.since, segment.closed)
    if not segment.unread and not segment.unknown:
        return _encode(body)
    tasks = [*(msgspec.Raw(_encode(entry)) for entry in entries), *(each.entry for each in segment.unread)]
    return _encode({**_decode_fields(_encode(body)), "tasks": tasks, **segment.unknown})


def decode(name: str, etag: str, body: bytes) -> Segment:
    """Read an object; one that cannot be read is an error that names it."""
    try:
        return _read(name, etag, body)
    except UNREADABLE as error:
        raise DamagedRecord(name, str(error), of="object") from None


def _read(name: str, etag: str, body: bytes) -> Segment:
    try:
        found = _decode(body)
    except msgspec.ValidationError:
        return _read_patiently(name, etag, body)
    entries = {entry.task.id: entry for entry in found.tasks}
    pack = is_pack(name)
    if found.format > FORMAT or len(entries) < len(found.tasks) or any(_fault(each.task, pack) for each in found.tasks):
        return _read_patiently(name, etag, body)
    return _checked(Segment(name, etag, entries, found.moved, found.arriving, found.since, found.closed))


def _read_patiently(name: str, etag: str, body: bytes) -> Segment:
    """Task by task: those with fields of a newer version keep them, and those that cannot be read stay as they are."""
    found = _decode_patiently(body)
    if found.format > FORMAT:
        why = f"written in format {found.format} by a newer Tenure; this one reads up to {FORMAT}"
        raise DamagedRecord(name, why, of="object")
    entries: dict[str, Entry] = {}
    unread: list[Unread] = []
    for number, raw in enumerate(found.tasks):
        label = _label(name, number, raw)
        try:
            parts = _decode_entry(raw)
            task = decode_task(parts.task, label)
            fault = "another task here has its id" if task.id in entries else _fault(task, is_pack(name))
            if fault is not None:
                raise DamagedRecord(label, fault)
        except DamagedRecord as damage:
            unread.append(Unread(label, str(damage), raw))
        except UNREADABLE as error:
            unread.append(Unread(label, str(DamagedRecord(label, str(error))), raw))
        else:
            entries[task.id] = Entry(parts.order, task)
    unknown = {field: raw for field, raw in _decode_fields(body).items() if field not in _PatientBody.__struct_fields__}
    segment = Segment(name, etag, entries, found.moved, found.arriving, found.since, found.closed)
    return _checked(replace(segment, unread=tuple(unread), unknown=unknown))


def _checked(segment: Segment) -> Segment:
    """Marks lead from object to object: one that leads elsewhere cannot be followed."""
    if segment.moved or segment.arriving:
        for place in (*segment.moved.values(), *segment.arriving.values()):
            if not holds_tasks(place):
                raise DamagedRecord(segment.name, f"{place!r} is no object with tasks", of="object")
    return segment


def _label(name: str, number: int, entry: msgspec.Raw) -> str:
    """What a record that may be illegible is called."""
    try:
        return _decode_label(entry).task.id
    except UNREADABLE:
        return f"{number + 1} in {name}"


def _fault(task: Task, ended_only: bool) -> str | None:
    """What a record says that cannot be, so that nobody could go on with it."""
    status = task.status
    if task.format > FORMAT or not task.history:
        return "it has no history, or is of a newer Tenure"
    if not -PRIORITY_LIMIT <= task.priority <= PRIORITY_LIMIT:
        return f"its priority is {task.priority}"
    if status is _PENDING or status is _RUNNING:
        if ended_only:
            return f"it is {status}, and stands among ended tasks"
        if status is _RUNNING and (task.lease_expires_at is None or task.worker_id is None):
            return "it is running without a lease"
    elif task.ended_at is None:
        return f"it is {status}, and never ended"
    return None
