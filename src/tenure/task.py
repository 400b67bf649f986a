"""The record of a task, and its JSON form."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from tenure import payload
from tenure.errors import DamagedRecord
from tenure.retry import COUNT_LIMIT, RetryPolicy
from tenure.times import Moment, from_text, utc
from tenure.unknown import Reader

FORMAT = 1
"""The version of the stored JSON. A record with a higher one was written by a newer Tenure."""

Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_LIMIT)]
Fence = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""Numbers that stand in columns, too. A record with others was harmed: no store could keep what comes after it."""


class TaskStatus(StrEnum):
    """Where a task stands. `scheduled` and `retrying` are views of pending, not statuses."""

    Pending = "pending"
    Running = "running"
    Completed = "completed"
    Failed = "failed"
    Cancelled = "cancelled"
    Expired = "expired"
    Archived = "archived"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to a task of this status by itself."""
        return self not in OPEN


OPEN = frozenset({TaskStatus.Pending, TaskStatus.Running})
ENDED = tuple(status for status in TaskStatus if status not in OPEN)


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One transition in the history of a task.

    In a stored record it is an array of its values, in this order, because the history is most of a record.
    """

    number: int
    status: TaskStatus
    at: Moment
    what: str
    attempt: int = 0
    fence: int = 0
    worker: str | None = None
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The event as plain Python values, by name."""
        plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.asdict(self))
        return plain


class Progress(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a running handler last said about how far it is."""

    current: float
    total: float | None = None
    message: str | None = None


class Task(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One unit of work, with everything that is known about it.

    `input` and `output` are kept as JSON text inside the record and read on access, so that
    moving a task through its life never touches them. Fields that a newer Tenure has added are
    kept as well (see `tenure.unknown`).
    """

    id: str
    type: str = msgspec.field(name="task_type")
    created_at: Moment
    available_at: Moment
    queue: str = "default"
    status: TaskStatus = TaskStatus.Pending
    version: Count = 1
    input_json: msgspec.Raw = msgspec.field(name="input", default=payload.NULL)
    output_json: msgspec.Raw = msgspec.field(name="output", default=payload.NULL)
    priority: int = 0
    ordering_key: str | None = None
    tags: tuple[str, ...] = ()

    expires_at: Moment | None = None
    started_at: Moment | None = None
    completed_at: Moment | None = None
    failed_at: Moment | None = None
    expired_at: Moment | None = None
    cancelled_at: Moment | None = None
    archived_at: Moment | None = None

    fence: Fence = 0
    worker_id: str | None = None
    lease_expires_at: Moment | None = None

    attempts: Count = 0
    max_attempts: int = 0
    limit: int = 0
    retry: RetryPolicy | None = None
    timeout: float | None = None
    reschedules: int = 0
    max_reschedules: int | None = None

    last_error: str | None = None
    traceback: str | None = None
    cancel_requested: bool = False
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    progress: Progress | None = None

    idempotency_key: str | None = None
    remember_until: Moment | None = None
    headers: dict[str, str] = {}

    history: tuple[Event, ...] = ()
    created: bool = True
    format: int = 0

    @property
    def input(self) -> Any:
        """What the producer submitted, parsed anew on each access."""
        return payload.from_json(self.input_json)

    @property
    def output(self) -> Any:
        """What the handler returned; None until the task is completed."""
        return payload.from_json(self.output_json)

    @property
    def updated_at(self) -> datetime:
        """When the last transition happened."""
        return self.history[-1].at if self.history else self.created_at

    @property
    def history_omitted(self) -> int:
        """How many events in the middle of a long history were left out."""
        return self.version - len(self.history)

    @property
    def ended_at(self) -> datetime | None:
        """When the task ended, whichever way; None while it is open."""
        if self.status in OPEN:
            return None
        return self.completed_at or self.expired_at or self.cancelled_at or self.failed_at

    @property
    def task_type(self) -> str:
        """The same as `type`, under the name of the stored record."""
        return self.type

    @property
    def attempt(self) -> int:
        """The number of the current or next execution, from 1."""
        return self.attempts + 1

    def is_available_at(self, now: datetime | str) -> bool:
        """Whether the task is due: its time has come."""
        return _moment(now) >= self.available_at

    def is_expired_at(self, now: datetime | str) -> bool:
        """Whether the deadline has passed; never true without one."""
        return self.expires_at is not None and _moment(now) >= self.expires_at

    def is_leased_at(self, now: datetime | str) -> bool:
        """Whether a worker holds the task by a lease that is still valid."""
        return self.lease_expires_at is not None and _moment(now) < self.lease_expires_at

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as plain Python values, every field present."""
        values = {field.encode_name: _read(getattr(self, field.name)) for field in msgspec.structs.fields(self)}
        values["updated_at"], values["ended_at"] = self.updated_at, self.ended_at
        values["history"] = [event.to_dict() for event in self.history]
        plain: dict[str, Any] = msgspec.to_builtins(values)
        return plain


class _Format(msgspec.Struct):
    format: int = 0


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What bytes that are no record can raise when they are read."""
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Task)
_many_decoder = msgspec.json.Decoder(list[Task])
_patient_reader = Reader(Task)
_format_decoder = msgspec.json.Decoder(_Format)
encode = _encoder.encode


def decode(record: bytes | msgspec.Raw, task_id: str = "?") -> Task:
    """Read a stored record; a damaged one, or one of a newer format, is an error that names the task."""
    try:
        task = _decoder.decode(record)
    except UNREADABLE:
        return _decode_patiently(record, task_id)
    if task.format > FORMAT or not task.history:
        return _decode_patiently(record, task_id)
    return task


def decode_many(records: bytes) -> list[Task]:
    """Read a JSON array of stored records in one step; if any of them needs a closer look, none is read."""
    try:
        tasks = _many_decoder.decode(records)
    except UNREADABLE:
        return []
    return tasks if all(task.format <= FORMAT and task.history for task in tasks) else []


def _decode_patiently(record: bytes | msgspec.Raw, task_id: str) -> Task:
    try:
        format_ = _format_decoder.decode(record).format
        if format_ > FORMAT:
            raise _newer(task_id, format_)
        task = _patient_reader.decode(record)
    except UNREADABLE as error:
        raise DamagedRecord(task_id, str(error)) from None
    if not task.history:
        why = "it has no history"
        raise DamagedRecord(task_id, why)
    return task


def _newer(task_id: str, format_: int) -> DamagedRecord:
    return DamagedRecord(task_id, f"written in format {format_} by a newer Tenure; this one reads up to {FORMAT}")


def _read(value: Any) -> Any:
    return payload.from_json(value) if isinstance(value, msgspec.Raw) else value


def _moment(moment: datetime | str) -> datetime:
    return from_text(moment) if isinstance(moment, str) else utc(moment)
