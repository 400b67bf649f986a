"""Idempotent submit: one key, one task, for as long as the key's record lives.

A store keeps the records and makes the writes; what an existing record means for a new
submit is decided here, once, for all of them.
"""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from enum import StrEnum
from typing import Literal

import msgspec

from tenure.errors import DamagedRecord, IdempotencyConflict
from tenure.times import Moment
from tenure.unknown import Reader

TASK_TYPE = "task_type"
QUEUE = "queue"


class Kind(StrEnum):
    """What a scope is made of. It is part of a record's identity, so that scopes of two kinds never meet."""

    TaskType = "type"
    Queue = "queue"
    Custom = "custom"
    Slot = "slot"


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The record that ties a key to a task.

    `input_hash` is None for a slot, which reserves a place in a schedule whatever the input.
    """

    kind: Kind
    scope: str
    key: str
    key_hash: str
    task_id: str
    task_type: str
    created_at: Moment
    expires_at: Moment | None = None
    input_hash: str | None = None
    state: Literal["creating", "ready"] = "ready"

    @property
    def identity(self) -> str:
        """What no two records share."""
        return identity(self.kind, self.scope, self.key_hash)

    def is_stale_at(self, now: datetime) -> bool:
        """Whether the record has outlived its own time."""
        return self.expires_at is not None and now >= self.expires_at


_reader = Reader(Reservation)


def read_reservation(record: bytes | str, identity: str) -> Reservation:
    """Read the stored record of a key; a damaged one is an error that names the key."""
    try:
        return _reader.decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRecord(identity, str(error), of="key") from None


class Verdict(StrEnum):
    """What to do with a submit whose key has a record already."""

    Existing = "existing"
    Finish = "finish"
    TakeOver = "take over"


def scope_of(scope: str, task_type: str) -> tuple[Kind, str]:
    """The kind and the name of the scope that a producer asked for."""
    if scope == TASK_TYPE:
        return Kind.TaskType, task_type
    if scope == QUEUE:
        return Kind.Queue, QUEUE
    return Kind.Custom, scope


def slot_key(slot: tuple[str, date | str]) -> str:
    """The key of a slot: what, and which day."""
    what, day = slot
    return f"{what}#{day.isoformat() if isinstance(day, date) else day}"


def hash_key(scope: str, key: str) -> str:
    """The published form of a key: `sha256:` and the hash of scope, colon, key."""
    return "sha256:" + hashlib.sha256(f"{scope}:{key}".encode()).hexdigest()


def identity(kind: Kind, scope: str, key_hash: str) -> str:
    """What no two records share. The scope stands beside the hash, because `a:b` + `c` and `a` + `b:c` hash alike."""
    return f"{kind}/{len(scope)}/{scope}/{key_hash}"


def judge(found: Reservation, wanted: Reservation, now: datetime, *, task_known: bool) -> Verdict:
    """What an existing record means for a new submit.

    A stale record, or a finished one whose task is gone, gives way. A record that was left in
    `creating` is finished under the task id that it names, so that a slow first producer and
    its successor can only create the same task.
    """
    if found.is_stale_at(now):
        return Verdict.TakeOver
    if not task_known and found.state == "ready":
        return Verdict.TakeOver
    if wanted.kind is not Kind.Slot:
        for difference in ("task_type", "input_hash"):
            if getattr(found, difference) != getattr(wanted, difference):
                what = "type" if difference == "task_type" else "input"
                raise IdempotencyConflict(wanted.key, found.task_id, wanted.scope, what)
    return Verdict.Existing if task_known else Verdict.Finish
