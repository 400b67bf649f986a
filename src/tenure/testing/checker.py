"""Looks at the tasks of a finished run and says which promises were broken.

It reads nothing but what everyone can read: the tasks with their histories, the ids whose
submit was acknowledged, and what the handlers saw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from tenure.task import ENDED, OPEN, Event, Task, TaskStatus

Pending, Running = TaskStatus.Pending, TaskStatus.Running
Completed, Failed, Cancelled = TaskStatus.Completed, TaskStatus.Failed, TaskStatus.Cancelled
Expired, Archived = TaskStatus.Expired, TaskStatus.Archived

_STEPS: dict[str, tuple[Collection[TaskStatus], Collection[TaskStatus]]] = {
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

_SPENT = ("failed", "lapsed")
_GIVEN_BACK = ("released", "rescheduled")


def check(
    tasks: Iterable[Task],
    acknowledged_ids: Collection[str] = (),
    *,
    executions: Iterable[tuple[str, int]] = (),
    all_ended: bool = False,
    one_task_per_key: bool = True,
) -> list[str]:
    """The broken promises of a run, each as a sentence; an empty list means that all were kept.

    `executions` are the starts of handlers, each as (task id, fence). `all_ended` asks that
    nothing is left to do. When `acknowledged_ids` is a list, it is taken for the order of
    submits, and ordering keys are checked against it; give a set when producers of one key ran
    at the same time. `one_task_per_key` is right for keys in their default scope.
    """
    tasks = list(tasks)
    known = {task.id: task for task in tasks}
    broken = [f"{task_id}: was acknowledged and is lost" for task_id in acknowledged_ids if task_id not in known]
    broken += [
        f"{task_id}: stands there {count} times"
        for task_id, count in Counter(task.id for task in tasks).items()
        if count > 1
    ]
    for task in tasks:
        broken += [f"{task.id}: {what}" for what in check_task(task)]
        if all_ended and task.status in OPEN:
            broken.append(f"{task.id}: is still {task.status}")
    broken += _executions(known, list(executions))
    broken += _ordering(tasks, list(acknowledged_ids) if isinstance(acknowledged_ids, Sequence) else [])
    if one_task_per_key:
        broken += _keys(tasks)
    return broken


def check_task(task: Task) -> list[str]:
    """What is wrong with one task, by its own history."""
    return [*_history(task), *_deadlines(task), *_attempts(task)]


def _history(task: Task) -> Iterator[str]:
    """Replay the events: each step must exist, fences must grow, and the end must be the task as it stands."""
    first, *rest = task.history
    if (first.number, first.what, first.status, first.fence) != (1, "created", Pending, 0):
        yield f"its history begins with {_said(first)}"
    status, fence, attempts = first.status, 0, 0
    for before, event in pairwise(task.history):
        if event.number != before.number + 1:
            if event.number <= before.number or not task.history_omitted:
                yield f"event {event.number} follows event {before.number}"
            # The middle of a long history is left out: go on from what the next event implies.
            status, fence, attempts = _implied(event, before)
        yield from _step(status, fence, attempts, before, event)
        status, fence = event.status, event.fence
        attempts = _attempts_after(event, attempts)
    last = rest[-1] if rest else first
    for name, value, rebuilt in (
        ("status", task.status, status),
        ("version", task.version, last.number),
        ("fence", task.fence, fence),
        ("attempts", task.attempts, attempts),
    ):
        if value != rebuilt:
            yield f"{name} is {value}, but its history says {rebuilt}"
    if (task.status is Running) != (task.lease_expires_at is not None and task.worker_id is not None):
        yield f"is {task.status} with the lease of {task.worker_id} until {task.lease_expires_at}"


def _step(status: TaskStatus, fence: int, attempts: int, before: Event, event: Event) -> Iterator[str]:
    sources, targets = _STEPS.get(event.what, ((), ()))
    late = event.what == "completed" and status is Pending and before.what == "lapsed"
    if (status not in sources and not late) or event.status not in targets:
        yield f"went from {status} to {_said(event)}"
    if event.what == "claimed":
        if event.fence <= fence:
            yield f"{_said(event)} has fence {event.fence} after fence {fence}"
    elif event.fence != fence:
        yield f"{_said(event)} was written by fence {event.fence} while the newest claim has fence {fence}"
    allowed: tuple[int, ...] = (attempts,)
    if event.what in ("claimed", "completed", *_SPENT) and not late:
        allowed = (attempts + 1,)
    elif event.what == "stopped":
        allowed = (attempts, attempts + 1)
    elif event.what == "retried":
        allowed = (0, attempts)
    if event.attempt not in allowed:
        yield f"{_said(event)} counts attempt {event.attempt} after {attempts} spent ones"


def _attempts_after(event: Event, attempts: int) -> int:
    return event.attempt if event.what in (*_SPENT, "stopped", "retried") else attempts


def _implied(event: Event, before: Event) -> tuple[TaskStatus, int, int]:
    """A state from which the event is a right step, whatever happened in the part that is left out."""
    sources, _ = _STEPS.get(event.what, ((before.status,), ()))
    attempts = event.attempt - 1 if event.what in ("claimed", "completed", *_SPENT) else event.attempt
    return next(iter(sources)), event.fence - (event.what == "claimed"), attempts


def _deadlines(task: Task) -> Iterator[str]:
    claims = [event for event in task.history if event.what == "claimed"]
    if task.expires_at is not None:
        for claim in claims:
            if claim.at >= task.expires_at:
                yield f"{_said(claim)} came after its deadline {task.expires_at}"
    # Later steps move the due time, so only a claim that is still the newest word can be judged.
    moved = {"retried", "rescheduled", *_SPENT}
    newest = claims[-1:] if not any(_follows(event, claims, moved) for event in task.history) else []
    for claim in newest:
        if claim.at < task.available_at:
            yield f"{_said(claim)} came before it was due at {task.available_at}"


def _follows(event: Event, claims: list[Event], steps: Collection[str]) -> bool:
    return bool(claims) and event.number > claims[-1].number and event.what in steps


def _attempts(task: Task) -> Iterator[str]:
    """No more executions than the limit, in the life since the last retry by an operator."""
    if task.history_omitted:
        return
    life: list[Event] = []
    carried = 0
    for event in task.history:
        if event.what == "retried":
            life, carried = [], event.attempt
        life.append(event)
    claims = sum(event.what == "claimed" for event in life)
    given_back = sum(event.what in _GIVEN_BACK for event in life)
    most = max(task.limit - carried, 1)
    if claims - given_back > most:
        yield f"was run {claims - given_back} times, and {most} were allowed"
    endings = [event for event in life if event.status.ended and event.status is not Archived]
    if len(endings) > 1:
        yield f"ended {len(endings)} times: {', '.join(_said(event) for event in endings)}"


def _executions(known: dict[str, Task], executions: list[tuple[str, int]]) -> Iterator[str]:
    for (task_id, fence), count in Counter(executions).items():
        if count > 1:
            yield f"{task_id}: ran {count} times under the one claim with fence {fence}"
        task = known.get(task_id)
        if task is None:
            yield f"{task_id}: ran and was never submitted"
        elif not task.history_omitted and fence not in {e.fence for e in task.history if e.what == "claimed"}:
            yield f"{task_id}: ran with fence {fence}, which no claim has given it"


def _ordering(tasks: list[Task], submitted: list[str]) -> Iterator[str]:
    place = {task_id: number for number, task_id in enumerate(submitted)}
    keys: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        if task.ordering_key is not None:
            keys[task.ordering_key].append(task)
    for key, members in keys.items():
        stays = sorted((begin, end, task.id) for task in members for begin, end in _stays(task))
        for (_, end, one), (begin, _, other) in pairwise(stays):
            if one != other and (end is None or begin < end):
                yield f"{other}: began before {one} of the same ordering key {key!r} had stopped"
        in_order = sorted((task for task in members if task.id in place), key=lambda task: place[task.id])
        for earlier, later in pairwise(in_order):
            began = next((event.at for event in later.history if event.what == "claimed"), None)
            ended = next((event.at for event in earlier.history if event.status.ended), None)
            if began is not None and (ended is None or began < ended):
                yield f"{later.id}: began before {earlier.id}, submitted earlier with ordering key {key!r}, had ended"


def _stays(task: Task) -> Iterator[tuple[datetime, datetime | None]]:
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


def _keys(tasks: list[Task]) -> Iterator[str]:
    keys: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in tasks:
        if task.idempotency_key is not None:
            keys[task.type, task.idempotency_key].append(task)
    for (_, key), members in keys.items():
        for one, other in pairwise(sorted(members, key=lambda task: task.created_at)):
            if one.remember_until is not None and other.created_at < one.remember_until:
                yield f"{other.id}: was created with the idempotency key {key!r} that belongs to {one.id}"


def _said(event: Event) -> str:
    return f"{event.what!r} ({event.status}, event {event.number})"
