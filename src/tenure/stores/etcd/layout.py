"""Where everything stands: which keys a task has in which state.

`entries` is the one place that knows it. Whatever happens to a task, the keys that it has no more
are deleted and those that are new are written, in one transaction.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from tenure.submission import PRIORITY_LIMIT
from tenure.task import Task, TaskStatus, encode
from tenure.times import to_text

SUBMITTED, CHANGED, ASKED, TIME = b"submitted", b"changed", b"asked", b"time"
"""What stands under `news/`, which everybody watches."""

RUNNING = b"running"
"""What stands in the turn of an ordering key while a task of it runs."""

_SAFE = re.compile(r"[A-Za-z0-9_.~-]+")


class Due(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a claim must know of a task before it reads it: the value of its due entry."""

    expires_at: datetime | None = None
    fence: int = 0
    ordering_key: str | None = None


class Lane(NamedTuple):
    """Tasks that a claim may take in the order of their keys: of one queue, type and priority."""

    queue: str
    type: str
    priority: int


def name(text: str) -> bytes:
    """A name as a part of a key, which has no slash in it and nothing that sorts before one.

    >>> name("mail"), name("a/b c")
    (b'mail', b'a%2Fb%20c')
    """
    return text.encode() if _SAFE.fullmatch(text) else quote(text, safe="").encode()


def plain(part: bytes) -> str:
    """The name behind a part of a key."""
    text = part.decode()
    return unquote(text) if "%" in text else text


def moment(at: datetime) -> bytes:
    """A time as a part of a key."""
    return to_text(at).encode()


def after(start: bytes) -> bytes:
    """The end of a walk over all keys that begin with `start`, which ends with a slash: the sign after a slash is 0.

    >>> after(b"tenure/task/")
    b'tenure/task0'
    """
    return start[:-1] + b"0"


def place_of(revision: int, number: int) -> bytes:
    """The place of a task in the order of submits: what the log had reached, then its number in the batch."""
    return b"%013x%06x" % (revision, number)


def pack(task: Task, place: bytes) -> bytes:
    """The stored record: the place of the task, and behind it its JSON."""
    return place + b" " + encode(task)


def unpack(record: bytes) -> tuple[bytes, bytes]:
    """The place and the JSON behind `pack`."""
    place, _, json = record.partition(b" ")
    return place, json


class Layout:
    """The keys of one store."""

    def __init__(self, prefix: str) -> None:
        self.root = prefix.encode() + b"/"

    def folder(self, *parts: bytes) -> bytes:
        """The beginning of all keys of a kind."""
        return self.root + b"/".join(parts) + b"/"

    def key(self, *parts: bytes) -> bytes:
        """One key."""
        return self.root + b"/".join(parts)

    def task(self, task_id: str) -> bytes:
        """Where the record is."""
        return self.root + b"task/" + name(task_id)

    def claim(self, task_id: str) -> bytes:
        """Where the claim is, while the task runs."""
        return self.root + b"claim/" + name(task_id)

    def stone(self, task_id: str) -> bytes:
        """Where a pruned task is remembered."""
        return self.root + b"stone/" + name(task_id)

    def reservation(self, identity: str) -> bytes:
        """Where the record of a key or slot is."""
        return self.root + b"reservation/" + name(identity)

    def news(self, what: bytes) -> bytes:
        """What is written whenever something of the kind has happened."""
        return self.root + b"news/" + what

    def lane(self, lane: Lane) -> bytes:
        """The mark of a lane in which something was or is due."""
        return self.key(b"lane", *_lane(lane))

    def due_folder(self, lane: Lane) -> bytes:
        """The beginning of all due entries of a lane."""
        return self.folder(b"due", *_lane(lane))

    def due(self, task: Task, place: bytes) -> bytes:
        """Where a pending task stands in line."""
        return b"%b%b/%b/%b" % (self.due_folder(lane_of(task)), moment(task.available_at), place, name(task.id))

    def deadline(self, expires_at: datetime, place: bytes, task_id: str) -> bytes:
        """Where a pending task stands by its deadline."""
        return self.key(b"deadline", moment(expires_at), place, name(task_id))

    def turn(self, ordering_key: str) -> bytes:
        """Whose turn it is: a due entry, or `running`."""
        return self.root + b"turn/" + name(ordering_key)

    def unsettled(self, ordering_key: str) -> bytes:
        """The mark of an ordering key about which something has changed."""
        return self.root + b"unsettled/" + name(ordering_key)

    def line(self, ordering_key: str) -> bytes:
        """The beginning of the open tasks of an ordering key."""
        return self.folder(b"line", name(ordering_key))

    def entries(self, task: Task, place: bytes) -> dict[bytes, bytes]:
        """All keys of a task beside its record and its claim, with their values."""
        end = place + b"/" + name(task.id)
        keys = {self.folder(b"tag", name(tag)) + end: b"" for tag in task.tags}
        if task.status.ended:
            assert task.ended_at is not None
            keys[self.key(b"done", end)] = b""
            keys[self.key(b"ended", task.status.encode(), moment(task.ended_at), end)] = b""
            return keys
        keys[self.key(b"open", end)] = b""
        pending = task.status is TaskStatus.Pending
        if task.ordering_key is not None:
            # The value is what `turns` needs to let the task go.
            where = self.due(task, place) + b" " + _due_value(task) if pending else b""
            keys[self.line(task.ordering_key) + end] = where
        elif pending:
            keys[self.due(task, place)] = _due_value(task)
        if pending and task.expires_at is not None:
            # The value is what lets the next task of its key go, if the record cannot be read.
            keys[self.deadline(task.expires_at, place, task.id)] = (task.ordering_key or "").encode()
        if task.cancel_requested:
            keys[self.key(b"asked", end)] = b""
        return keys


def lane_of(task: Task) -> Lane:
    """The lane of a task."""
    return Lane(task.queue, task.type, task.priority)


def read_lane(key: bytes) -> Lane:
    """The lane behind the last three parts of its key."""
    queue, type_, priority = key.split(b"/")[-3:]
    return Lane(plain(queue), plain(type_), PRIORITY_LIMIT - int(priority))


def _lane(lane: Lane) -> tuple[bytes, bytes, bytes]:
    return name(lane.queue), name(lane.type), b"%05d" % (PRIORITY_LIMIT - lane.priority)


def _due_value(task: Task) -> bytes:
    return msgspec.json.encode(Due(task.expires_at, task.fence, task.ordering_key))
