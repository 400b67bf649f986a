"""Goes through the history of a task step by step."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import pairwise

from tenure.lifecycle import HISTORY_HEAD, HISTORY_TAIL
from tenure.task import ENDED, Event, Task, TaskStatus

Pending, Running = TaskStatus.Pending, TaskStatus.Running
Completed, Failed, Cancelled = TaskStatus.Completed, TaskStatus.Failed, TaskStatus.Cancelled
Expired, Archived = TaskStatus.Expired, TaskStatus.Archived

STEPS: dict[str, tuple[Collection[TaskStatus], Collection[TaskStatus]]] = {
    "claimed": ([Pending], [Running]),
    "completed": ([Running], [Completed]),
    "failed": ([Running], [Pending, Failed]),
    "lapsed": ([Running], [Pending, Failed]),
    "released": ([Running], [Pending]),
    "rescheduled": ([Running], [Pending]),
    "cancel requested": ([Running], [Running]),
    "stopped": ([Running], [Cancelled]),
    "cancelled": ([Pending], [Cancelled]),
    "expired": ([Pending], [Expired]),
    "retried": ([Failed, Cancelled], [Pending]),
    "archived": ([status for status in ENDED if status is not Archived], [Archived]),
}
"""From which statuses each step leads to which."""

SPENT = ("failed", "lapsed")
GIVEN_BACK = ("released", "rescheduled")


def said(event: Event) -> str:
    """An event in a few words."""
    return f"{event.what!r} ({event.status}, event {event.number})"


def is_cut(task: Task) -> bool:
    """Whether the middle of its history may have been left out: only when it is long."""
    return len(task.history) >= HISTORY_HEAD + HISTORY_TAIL


def claims(task: Task) -> list[Event]:
    """Every claim that its history has kept."""
    return [event for event in task.history if event.what == "claimed"]


def stays(task: Task) -> Iterator[tuple[datetime, datetime | None]]:
    """From when to when the task was running, each time."""
    begin: datetime | None = None
    for event in task.history:
        if event.status is Running:
            begin = event.at if begin is None else begin
        elif begin is not None:
            yield begin, event.at
            begin = None
    if begin is not None:
        yield begin, None


def lives(task: Task) -> Iterator[list[Event]]:
    """Its history, cut where an operator has given it another life."""
    life: list[Event] = []
    for event in task.history:
        if event.what == "retried":
            yield life
            life = []
        life.append(event)
    yield life


def replay(task: Task) -> Iterator[str]:
    """Each step must exist, and the last must lead to the task as it stands."""
    first, *rest = task.history
    if (first.number, first.what, first.status, first.fence) != (1, "created", Pending, 0):
        yield f"its history begins with {said(first)}"
    status, attempts = first.status, 0
    for before, event in pairwise(task.history):
        if event.number != before.number + 1:
            if event.number <= before.number or not is_cut(task):
                yield f"event {event.number} follows event {before.number}"
            # The middle of a long history is left out: go on from what the next event implies.
            status, attempts = _implied(event, before)
        yield from _step(status, attempts, before, event)
        status = event.status
        if event.what in (*SPENT, "stopped", "retried"):
            attempts = event.attempt
    last = rest[-1] if rest else first
    for name, value, rebuilt in (
        ("status", task.status, status),
        ("version", task.version, last.number),
        ("fence", task.fence, last.fence),
        ("attempts", task.attempts, attempts),
        *_moments(task),
    ):
        if value != rebuilt:
            yield f"{name} is {value}, but its history says {rebuilt}"
    if (task.status is Running) != (task.lease_expires_at is not None and task.worker_id is not None):
        yield f"is {task.status} with the lease of {task.worker_id} until {task.lease_expires_at}"


def _step(status: TaskStatus, attempts: int, before: Event, event: Event) -> Iterator[str]:
    sources, targets = STEPS.get(event.what, ((), ()))
    late = event.what == "completed" and status is Pending and before.what == "lapsed"
    if (status not in sources and not late) or event.status not in targets:
        yield f"went from {status} to {said(event)}"
    allowed: tuple[int, ...] = (attempts,)
    if event.what in ("claimed", "completed", *SPENT) and not late:
        allowed = (attempts + 1,)
    elif event.what == "stopped":
        allowed = (attempts, attempts + 1)
    elif event.what == "retried":
        allowed = (0, attempts)
    if event.attempt not in allowed:
        yield f"{said(event)} counts attempt {event.attempt} after {attempts} spent ones"


def _moments(task: Task) -> Iterator[tuple[str, datetime | None, datetime | None]]:
    """When each thing last happened; a life that an operator gave begins without a cancellation."""
    if is_cut(task):
        return
    at = {event.what: event.at for event in task.history}
    *_, life = lives(task)
    stopped = next((event.at for event in life if event.status is Cancelled), None)
    yield "started_at", task.started_at, at.get("claimed")
    yield "completed_at", task.completed_at, at.get("completed")
    yield "expired_at", task.expired_at, at.get("expired")
    yield "archived_at", task.archived_at, at.get("archived")
    yield "cancelled_at", task.cancelled_at, stopped


def _implied(event: Event, before: Event) -> tuple[TaskStatus, int]:
    """A state from which the event is a right step, whatever happened in the part that is left out."""
    sources, _ = STEPS.get(event.what, ((before.status,), ()))
    attempts = event.attempt - 1 if event.what in ("claimed", "completed", *SPENT) else event.attempt
    return next(iter(sources)), attempts
