"""One tree of errors. Each says what happened, with the values, and what to do about it."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class _Portable(Exception):
    """Comes back from another process as it was: type, message and attributes.

    Python would call the class again with the finished message, and ours want the values it was made from.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _brought_back, (type(self), self.args, self.__dict__)


def _brought_back(kind: type[_Portable], words: tuple[Any, ...], attributes: dict[str, Any]) -> _Portable:
    error = kind.__new__(kind, *words)
    super(_Portable, error).__init__(*words)
    error.__dict__.update(attributes)
    return error


class TenureError(_Portable):
    """Everything that Tenure raises on purpose."""


class InvalidInput(TenureError, ValueError):
    """A value was refused before anything was written."""


class InvalidURL(InvalidInput):
    """A store address that Tenure cannot read."""


class InvalidHandler(TenureError, TypeError):
    """A function or class that cannot serve as a handler."""


class MissingExtra(TenureError, ImportError):
    """A store or feature needs a package that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra package. Run: pip install 'tenure-queue[{extra}]'")
        self.extra = extra


class TaskNotFound(TenureError, LookupError):
    """No task has this id (any more)."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"No task {task_id!r} in this store. It was never submitted here, or retention has pruned it.")
        self.task_id = task_id


class TransitionRefused(TenureError):
    """The task is in a status from which this step does not exist."""

    step = "change"
    needs = ""

    def __init__(self, task_id: str, status: str, why: str = "") -> None:
        detail = why or self.needs
        super().__init__(f"Cannot {self.step} task {task_id}: it is {status}. {detail}".rstrip())
        self.task_id = task_id
        self.status = status


class CannotClaim(TransitionRefused):
    """Only a pending task that is due and not past its deadline can be claimed."""

    step = "claim"
    needs = "Only pending tasks that are due can be claimed."


class CannotExpire(TransitionRefused):
    """Only a pending task expires."""

    step = "expire"
    needs = "Only pending tasks expire; a running task is never touched by its deadline."


class CannotCancel(TransitionRefused):
    """The task has already ended in another way."""

    step = "cancel"
    needs = "Only pending and running tasks can be cancelled."


class CannotRetry(TransitionRefused):
    """Only failed and cancelled tasks go back to pending."""

    step = "retry"
    needs = "Only failed and cancelled tasks can be retried; submit a new task instead."


class CannotArchive(TransitionRefused):
    """Only ended tasks can be archived."""

    step = "archive"
    needs = "Only ended tasks can be archived; cancel it first or wait for its end."


class CannotPurge(TransitionRefused):
    """Only ended tasks can be forgotten."""

    step = "purge"
    needs = "Only ended tasks can be purged; cancel it first or wait for its end."


class LeaseLost(TenureError):
    """The claim behind a worker's write is no longer the newest one; nothing was changed."""

    def __init__(self, task_id: str, fence: int, status: str, current: int) -> None:
        super().__init__(
            f"The claim with fence {fence} on task {task_id} is over: the task is {status} at fence {current}. "
            "Nothing was changed. Stop working on it; whoever holds the newer claim carries on."
        )
        self.task_id = task_id
        self.fence = fence
        self.status = status


class IdempotencyConflict(TenureError):
    """The key already belongs to a task that was submitted with something else."""

    def __init__(self, key: str, task_id: str, scope: str, difference: str = "input") -> None:
        super().__init__(
            f"key {key!r} in scope {scope!r} already belongs to task {task_id} with another {difference}. "
            f"Use a new key for new work, or submit the same {difference} to get that task back."
        )
        self.key = key
        self.task_id = task_id
        self.scope = scope
        self.difference = difference


class ConcurrentChange(TenureError):
    """Others kept changing the task faster than this call could; nothing was changed."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task {task_id} kept changing while this call tried to change it. Try again.")
        self.task_id = task_id


class ResultTimeout(TenureError, TimeoutError):
    """The task had not ended when the caller's patience was over."""

    def __init__(self, task_id: str, status: str, timeout: float) -> None:
        super().__init__(
            f"Task {task_id} was still {status} after {timeout:g} s. It goes on; ask for its result again later."
        )
        self.task_id = task_id
        self.status = status


class TaskUnsuccessful(TenureError):
    """A result was asked for, and the task ended without one."""

    def __init__(self, task_id: str, status: str, why: str | None) -> None:
        super().__init__(f"Task {task_id} ended as {status}{f': {why}' if why else ''}. It has no result.")
        self.task_id = task_id
        self.status = status


class StoreError(TenureError):
    """Something about the store itself."""


class StoreUnavailable(StoreError, ConnectionError):
    """The store could not be reached or did not answer; whether the call took effect is unknown."""


class PartlySubmitted(StoreUnavailable):
    """A batch went to several stores, and one of them did not answer. `created` are the tasks that were stored."""

    def __init__(self, created: Sequence[Any], total: int, why: str) -> None:
        super().__init__(
            f"Of a batch of {total} tasks, {len(created)} were stored for certain, and the others may not be: {why} "
            "The stored ones are in the attribute `created` of this error; submit the others again."
        )
        self.created = tuple(created)


class StoreFull(StoreUnavailable):
    """There is no room left; the call took no effect."""


class StoreClosed(StoreError):
    """The queue was closed, or belongs to the process that this one was forked from. Connect again."""


class StoreUnusable(StoreError):
    """The store exists but cannot be used as it is; trying again will not help."""


class StoreTooNew(StoreUnusable):
    """The store was written by a newer version of Tenure."""


class DamagedRecord(StoreError):
    """A stored record cannot be read. It stays where it is, untouched, and is never run."""

    def __init__(self, task_id: str, why: str, of: str = "task") -> None:
        super().__init__(
            f"The stored record of {of} {task_id} cannot be read ({why}). "
            "It is kept as it is and set aside, so that other tasks go on."
        )
        self.task_id = task_id
        self.why = why


class PermanentError(Exception):
    """Raise it in a handler when another attempt would fail the same way: no retry, dead letter at once."""


Unrecoverable = PermanentError


class RescheduleError(_Portable):
    """Raise it in a handler to run again later without spending an attempt.

    >>> error = RescheduleError(delay_seconds=60, extend_expiration_seconds=120)
    >>> error.delay_seconds
    60
    """

    def __init__(self, delay_seconds: float | timedelta = 0, extend_expiration_seconds: float | timedelta = 0) -> None:
        self.delay_seconds = _seconds("delay_seconds", delay_seconds)
        self.extend_expiration_seconds = _seconds("extend_expiration_seconds", extend_expiration_seconds)
        super().__init__(f"run again in {self.delay_seconds:g} s")


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds <= sys.float_info.max:
        msg = f"{name}={value!r} must be a number of seconds or a timedelta, zero or more."
        raise InvalidInput(msg)
    return seconds


def one_of(what: str, value: object, known: Sequence[str]) -> str:
    """The sentence for a word that is not among the known ones."""
    return f"{value!r} is no {what}. Known: {', '.join(known)}."
