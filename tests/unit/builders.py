"""Tasks in every situation, and what a rule changed about them."""

from datetime import UTC, datetime, timedelta

import msgspec

from tenure import lifecycle
from tenure.lifecycle import Failure
from tenure.retry import RetryPolicy
from tenure.task import Event, Task, TaskStatus

NOW = datetime(2026, 1, 28, 17, tzinfo=UTC)
LEASE = timedelta(seconds=30)
POLICY = RetryPolicy(base=10, max_delay=None, multiplier=2, jitter=0, max_attempts=25)
OUTPUT = msgspec.Raw(b'{"sent":true}')


def at(seconds: float) -> datetime:
    """So many seconds after the submit."""
    return NOW + timedelta(seconds=seconds)


def pending(**words) -> Task:
    return lifecycle.submit(now=NOW, **{"id": "t1", "type": "greet", "available_at": NOW, **words})


def claimed(task: Task, now: datetime = NOW, *, by: str = "w1", policy_max: int | None = 25) -> Task:
    return lifecycle.claim(task, worker_id=by, now=now, lease=LEASE, policy_max=policy_max)


def failed_once(task: Task, now: datetime, text: str = "boom", policy: RetryPolicy | None = POLICY) -> Task:
    return lifecycle.fail(task, task.fence, Failure(text), policy, now, 0.5)


def running(**words) -> Task:
    return claimed(pending(**words))


def completed(**words) -> Task:
    task = running(**words)
    return lifecycle.complete(task, task.fence, OUTPUT, at(1))


def failed(**words) -> Task:
    return failed_once(running(**words), at(1), policy=None)


def cancelled(**words) -> Task:
    task = lifecycle.cancel(running(**words), at(1), "not needed", "ada")
    return lifecycle.stop(task, task.fence, at(2))


def expired(**words) -> Task:
    return lifecycle.expire(pending(**words), at(1))


def archived(**words) -> Task:
    return lifecycle.archive(completed(**words), at(2))


replace = msgspec.structs.replace

IN_STATUS = {
    TaskStatus.Pending: pending,
    TaskStatus.Running: running,
    TaskStatus.Completed: completed,
    TaskStatus.Failed: failed,
    TaskStatus.Cancelled: cancelled,
    TaskStatus.Expired: expired,
    TaskStatus.Archived: archived,
}


def changed(before: Task, after: Task) -> dict[str, object]:
    """The fields that differ, with their new values; what every step changes is checked here and left out."""
    last: Event = after.history[-1]
    assert after.history[:-1] == before.history
    assert after.version == last.number == before.version + 1
    assert after.updated_at == last.at
    assert after.status is last.status
    always = {"history", "version", "updated_at"}
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    return {name: value for name, value in new.items() if name not in always and value != old[name]}
