"""Why a task is not running, in a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.task import Task, TaskStatus
from tenure.times import to_text


def why_not_running(
    task: Task,
    now: datetime,
    *,
    handled: bool = True,
    paused: str | None = None,
    waits_for: str | None = None,
) -> str:
    """The first reason that applies.

    `handled`: whether a live worker takes this type from this queue; `paused`: the reason of a
    pause of its queue; `waits_for`: the id of an earlier task of its ordering key.
    """
    if task.status is TaskStatus.Running:
        return _running(task, now)
    if task.status is not TaskStatus.Pending:
        return _ended(task)
    if task.is_expired_at(now):
        return f"expired at {to_text(task.expires_at or now)}; about to be marked"
    if not task.is_available_at(now):
        wait = human(task.available_at - now)
        if task.attempts:
            return f"backing off after {_times(task.attempts, 'failure')}, due in {wait} ({task.last_error})"
        return f"due in {wait}"
    if waits_for is not None:
        return f"waits for an earlier task of its key {task.ordering_key!r}: {waits_for}"
    if paused is not None:
        return f"queue {task.queue!r} is paused{f': {paused}' if paused else ''}"
    if not handled:
        return f"no worker handles the type {task.type!r} in queue {task.queue!r}"
    return "due; the next free worker takes it"


def how_it_ended(task: Task) -> tuple[TaskStatus, str | None]:
    """The status that an ended task came to, also if it was put away since, and why."""
    status = task.status
    if status is TaskStatus.Archived:
        status = next((event.status for event in reversed(task.history) if event.status is not status), status)
    return status, {TaskStatus.Failed: task.last_error, TaskStatus.Cancelled: task.cancel_reason}.get(status)


def human(duration: timedelta) -> str:
    """A duration as people say it, in its two largest units.

    >>> human(timedelta(hours=2, minutes=30, seconds=5)), human(timedelta(seconds=0.25)), human(timedelta(days=8))
    ('2h 30m', '0.25s', '8d')
    """
    total = duration.total_seconds()
    if 0 < total < 1:
        return f"{total:.2g}s"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, total = divmod(int(total), size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def _running(task: Task, now: datetime) -> str:
    if task.lease_expires_at is not None and now >= task.lease_expires_at:
        return f"its lease, held by {task.worker_id}, lapsed at {to_text(task.lease_expires_at)}; about to be recovered"
    asked = "asked to stop; " if task.cancel_requested else ""
    return f"{asked}leased by {task.worker_id} until {to_text(task.lease_expires_at or now)}"


def _ended(task: Task) -> str:
    moment = to_text(task.ended_at) if task.ended_at else "?"
    if task.status is TaskStatus.Cancelled:
        by = f" by {task.cancelled_by}" if task.cancelled_by else ""
        reason = f": {task.cancel_reason}" if task.cancel_reason else ""
        return f"cancelled{by} at {moment}{reason}"
    if task.status is TaskStatus.Failed:
        return f"failed for good at {moment} after {_times(task.attempts, 'attempt')}: {task.last_error}"
    if task.status is TaskStatus.Archived and task.archived_at is not None:
        return f"archived at {to_text(task.archived_at)}; it had ended at {moment}"
    return f"{task.status} at {moment}"


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
