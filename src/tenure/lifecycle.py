"""Every transition of a task: (task, what happened, now) -> the next task, or a refusal.

Nothing here reads a clock, rolls dice or does I/O, so each rule can be tested as a table
and every store gets the same one. The next task carries one more version and one more
event; a store puts it in place of the version it was computed from, or not at all.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, overload

import msgspec

from tenure.errors import (
    CannotArchive,
    CannotCancel,
    CannotClaim,
    CannotExpire,
    CannotRetry,
    LeaseLost,
    TransitionRefused,
)
from tenure.retry import RetryPolicy, effective_max
from tenure.task import FORMAT, Event, Task, TaskStatus
from tenure.times import FOREVER, to_text

HISTORY_HEAD = 100
HISTORY_TAIL = 100
TRACEBACK_LIMIT = 8_000
ERROR_LIMIT = 2_000

Pending, Running, Completed = TaskStatus.Pending, TaskStatus.Running, TaskStatus.Completed
LAPSED = "lapsed"

replace = msgspec.structs.replace


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt did not succeed."""

    text: str
    traceback: str | None = None
    permanent: bool = False


def submit(*, now: datetime, expires_at: datetime | None = None, **words: Any) -> Task:
    """The first version of a task, as its producer described it."""
    why = None if expires_at is None else f"expires_at: {to_text(expires_at)}"
    created = Event(1, Pending, now, "created", 0, 0, None, why)
    return Task(created_at=now, expires_at=expires_at, format=FORMAT, history=(created,), **words)


def claim(
    task: Task, *, worker_id: str, now: datetime, lease: timedelta, policy_max: int | None, fence: int | None = None
) -> Task:
    """A worker takes the task until the lease ends; whoever claims later has a higher fence.

    The limit of executions is fixed by the first claim and holds for every later worker.
    `policy_max` is the word of that worker's retry policy, None when it has no policy.
    """
    if task.status is not Pending or _is_late(task, now) or now < task.available_at:
        raise CannotClaim(task.id, task.status)
    fence = task.fence + 1 if fence is None else fence
    number = task.version + 1
    return replace(
        task,
        status=Running,
        version=number,
        history=_longer(task.history, Event(number, Running, now, "claimed", task.attempts + 1, fence, worker_id)),
        fence=fence,
        worker_id=worker_id,
        lease_expires_at=later(now, lease),
        started_at=now,
        limit=task.limit or _limit(task, policy_max),
        progress=None,
    )


def renew(task: Task, fence: int, until: datetime) -> Task:
    """A longer lease for the same claim: no new version, because nothing happened to the task."""
    _require_owner(task, fence)
    return replace(task, lease_expires_at=max(until, task.lease_expires_at or until))


def complete(task: Task, fence: int, output: msgspec.Raw, now: datetime) -> Task:
    """The handler returned. A claim that lapsed may still complete while nobody else has claimed."""
    if task.status is Completed and task.fence == fence:
        return task
    lapsed = task.status is Pending and task.fence == fence and task.history[-1].what == LAPSED
    if not lapsed:
        _require_owner(task, fence)
    worker = task.worker_id or task.history[-1].worker
    attempt = task.attempts if lapsed else task.attempts + 1
    number = task.version + 1
    return replace(
        task,
        status=Completed,
        version=number,
        history=_longer(task.history, Event(number, Completed, now, "completed", attempt, fence, worker)),
        worker_id=None,
        lease_expires_at=None,
        completed_at=now,
        output_json=output,
    )


def fail(task: Task, fence: int, failure: Failure, policy: RetryPolicy | None, now: datetime, roll: float) -> Task:
    """One attempt failed: retry later, or give up.

    The policy decides when, never whether: that is the task's own limit.
    """
    _require_owner(task, fence)
    policy = task.retry or policy
    if failure.permanent or policy is None:
        return _attempt_failed(task, now, failure, "failed", retry_at=None)
    return _attempt_failed(task, now, failure, "failed", retry_at=later(now, policy.delay(task.attempts + 1, roll)))


def lapse(task: Task, now: datetime) -> Task:
    """The lease ran out before the worker finished: one failed attempt, and due again at once."""
    if task.status is not Running or not _has_lapsed(task, now):
        raise TransitionRefused(task.id, task.status, "A claim lapses only when its lease has run out.")
    return _attempt_failed(task, now, Failure(f"lease lapsed (held by {task.worker_id})"), LAPSED, retry_at=now)


def release(task: Task, fence: int, now: datetime, why: str) -> Task:
    """A worker gives the task back unfinished, on purpose: no attempt is spent."""
    _require_owner(task, fence)
    if task.cancel_requested:
        return _cancelled(task, now, "stopped")
    return _next(task, _event(task, now, Pending, "released", why), worker_id=None, lease_expires_at=None)


def reschedule(task: Task, fence: int, now: datetime, delay: float, extend_expiration: float = 0) -> Task:
    """The handler asked to run again later: no attempt is spent, but the number of times can be bounded."""
    _require_owner(task, fence)
    if task.cancel_requested:
        return _cancelled(task, now, "stopped")
    if task.max_reschedules is not None and task.reschedules >= task.max_reschedules:
        failure = Failure(f"max reschedules ({task.max_reschedules}) exceeded", permanent=True)
        return _attempt_failed(task, now, failure, "failed", retry_at=None)
    expires_at = task.expires_at and later(task.expires_at, extend_expiration)
    return _next(
        task,
        _event(task, now, Pending, "rescheduled", f"in {delay:g} s"),
        worker_id=None,
        lease_expires_at=None,
        available_at=later(now, delay),
        expires_at=expires_at,
        reschedules=task.reschedules + 1,
    )


def expire(task: Task, now: datetime) -> Task:
    """A pending task is too late. No failure: no attempt is spent."""
    if task.status is not Pending:
        raise CannotExpire(task.id, task.status)
    return _next(task, _event(task, now, TaskStatus.Expired, "expired"), expired_at=now)


def cancel(task: Task, now: datetime, reason: str | None = None, by: str | None = None) -> Task:
    """Pending ends at once; running is asked to stop; asking twice changes nothing."""
    if task.status is TaskStatus.Cancelled or (task.status is Running and task.cancel_requested):
        return task
    reason, by = _legible(reason), _legible(by)
    asked = replace(task, cancel_requested=True, cancelled_by=by, cancel_reason=reason)
    if task.status is Pending:
        return _cancelled(asked, now, "cancelled")
    if task.status is Running:
        return _next(asked, _event(task, now, Running, "cancel requested", _said(reason, by)))
    raise CannotCancel(task.id, task.status)


def stop(task: Task, fence: int, now: datetime) -> Task:
    """A running task that was asked to stop did so."""
    if task.status is TaskStatus.Cancelled and task.fence == fence:
        return task
    _require_owner(task, fence)
    return _cancelled(task, now, "stopped")


def retry(task: Task, now: datetime, *, keep_attempts: bool = False, by: str | None = None) -> Task:
    """An operator gives an ended task another life, with a fresh count of attempts unless told otherwise."""
    if task.status not in (TaskStatus.Failed, TaskStatus.Cancelled):
        raise CannotRetry(task.id, task.status)
    attempts = task.attempts if keep_attempts else 0
    return _next(
        task,
        _event(task, now, Pending, "retried", _said(None, _legible(by)), attempts=attempts),
        available_at=now,
        attempts=attempts,
        limit=0,
        reschedules=0,
        cancelled_at=None,
        cancel_requested=False,
        cancelled_by=None,
        cancel_reason=None,
    )


def archive(task: Task, now: datetime) -> Task:
    """An ended task is put away; it stays readable."""
    if task.status is TaskStatus.Archived:
        return task
    if not task.status.ended:
        raise CannotArchive(task.id, task.status)
    return _next(task, _event(task, now, TaskStatus.Archived, "archived", f"was {task.status}"), archived_at=now)


def overdue(task: Task, now: datetime) -> Task | None:
    """What time alone does to a task: lapse its claim or let it expire; None while nothing is due."""
    if task.status is Running and _has_lapsed(task, now):
        return lapse(task, now)
    if task.status is Pending and _is_late(task, now):
        return expire(task, now)
    return None


def became_overdue(task: Task, since: datetime | None, now: datetime) -> bool:
    """Whether time has caught up with a task by now, and had not `since`."""
    return overdue(task, now) is not None and (since is None or overdue(task, since) is None)


def took_effect(change: Task, stored: Task) -> bool:
    """Whether a change whose answer was lost is part of what is stored now."""
    return change.history[-1] in stored.history


def later(moment: datetime, delay: float | timedelta) -> datetime:
    """`moment + delay`, as far as a calendar goes."""
    try:
        return moment + (delay if isinstance(delay, timedelta) else timedelta(seconds=delay))
    except OverflowError:
        return FOREVER


def _is_late(task: Task, now: datetime) -> bool:
    return task.expires_at is not None and now >= task.expires_at


def _has_lapsed(task: Task, now: datetime) -> bool:
    return task.lease_expires_at is not None and now >= task.lease_expires_at


def _limit(task: Task, policy_max: int | None) -> int:
    return effective_max(task.max_attempts, policy_max if task.retry is None else task.retry.max_attempts)


def _require_owner(task: Task, fence: int) -> None:
    if task.status is not Running or task.fence != fence:
        raise LeaseLost(task.id, fence, task.status, task.fence)


def _attempt_failed(task: Task, now: datetime, failure: Failure, what: str, *, retry_at: datetime | None) -> Task:
    """Count the attempt; back to pending at `retry_at`, or dead when there is none or the limit is reached."""
    attempts = task.attempts + 1
    spent: dict[str, Any] = {
        "attempts": attempts,
        "last_error": _clipped(failure.text, ERROR_LIMIT),
        "traceback": failure.traceback and _clipped(failure.traceback, TRACEBACK_LIMIT),
        "failed_at": now,
    }
    if task.cancel_requested:
        return _cancelled(replace(task, **spent), now, "stopped")
    why = spent["last_error"]
    spent |= {"worker_id": None, "lease_expires_at": None}
    if retry_at is None or attempts >= max(task.limit, 1):
        return _next(task, _event(task, now, TaskStatus.Failed, what, why, attempts=attempts), **spent)
    event = _event(task, now, Pending, what, why, attempts=attempts)
    return _next(task, event, available_at=retry_at, **spent)


def _cancelled(task: Task, now: datetime, what: str) -> Task:
    event = _event(task, now, TaskStatus.Cancelled, what, _said(task.cancel_reason, task.cancelled_by))
    return _next(task, event, worker_id=None, lease_expires_at=None, cancelled_at=now)


def _event(
    task: Task, now: datetime, status: TaskStatus, what: str, why: str | None = None, attempts: int | None = None
) -> Event:
    attempt = task.attempts if attempts is None else attempts
    return Event(task.version + 1, status, now, what, attempt, task.fence, task.worker_id, why)


def _next(task: Task, event: Event, **changes: Any) -> Task:
    """The following version. The two transitions of every task, claim and completion, spell it out: keywords cost."""
    return replace(task, status=event.status, version=event.number, history=_longer(task.history, event), **changes)


def _longer(history: tuple[Event, ...], event: Event) -> tuple[Event, ...]:
    """One event more; the middle of a very long history is left out."""
    if len(history) >= HISTORY_HEAD + HISTORY_TAIL:
        history = history[:HISTORY_HEAD] + history[HISTORY_HEAD + 1 :]
    return (*history, event)


def _said(reason: str | None, by: str | None) -> str | None:
    return "; ".join(part for part in (reason, by and f"by {by}") if part) or None


def _clipped(text: str, limit: int) -> str:
    """Keep the end of a long text: that is where a traceback says what happened."""
    text = _legible(text)
    return text if len(text) <= limit else "… " + text[-limit:]


@overload
def _legible(text: str) -> str: ...
@overload
def _legible(text: str | None) -> str | None: ...
def _legible(text: str | None) -> str | None:
    """Other people's words as text that can be stored: a file name in an error may hold bytes that are no Unicode."""
    return None if text is None else str(text).encode(errors="backslashreplace").decode()
