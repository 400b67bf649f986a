"""Rules 24, 30: a worker gives a task back unfinished."""

import pytest

from tenure import lifecycle
from tenure.task import Event, TaskStatus
from tenure.times import FOREVER

from .builders import NOW, at, changed, claimed, pending, running


def test_a_reschedule_spends_no_attempt_and_leaves_the_deadline_alone():
    task = running(expires_at=at(3600))
    after = lifecycle.reschedule(task, 1, at(3), 60)
    assert changed(task, after) == {
        "status": TaskStatus.Pending,
        "available_at": at(63),
        "reschedules": 1,
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.history[-1] == Event(3, TaskStatus.Pending, at(3), "rescheduled", 0, 1, "w1", "in 60 s")


@pytest.mark.parametrize(
    ("deadline", "extension", "expected"),
    [(at(3600), 120, at(3720)), (at(3600), 0.5, at(3600.5)), (None, 120, None), (FOREVER, 120, FOREVER)],
)
def test_a_reschedule_extends_the_deadline_if_there_is_one(deadline, extension, expected):
    after = lifecycle.reschedule(running(expires_at=deadline), 1, at(3), 60, extension)
    assert after.expires_at == expected


def test_a_reschedule_past_the_calendar_is_as_late_as_it_goes():
    assert lifecycle.reschedule(running(), 1, at(3), 1e300).available_at == FOREVER


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_max_reschedules_bounds_them(bound):
    task, now = pending(max_reschedules=bound), NOW
    for count in range(bound):
        task = lifecycle.reschedule(claimed(task, now), count + 1, now, 60)
        now = task.available_at
        assert (task.status, task.reschedules, task.attempts) == (TaskStatus.Pending, count + 1, 0)
    dead = lifecycle.reschedule(claimed(task, now), bound + 1, now, 60)
    assert (dead.status, dead.attempts, dead.reschedules) == (TaskStatus.Failed, 1, bound)
    assert dead.last_error == f"max reschedules ({bound}) exceeded"


def test_without_a_bound_a_task_may_be_rescheduled_for_ever():
    task, now = pending(max_attempts=1), NOW
    for count in range(300):
        task = lifecycle.reschedule(claimed(task, now), count + 1, now, 1)
        now = task.available_at
    assert (task.reschedules, task.attempts) == (300, 0)


def test_a_release_gives_the_task_back_and_spends_no_attempt():
    task = running()
    after = lifecycle.release(task, 1, at(3), "its worker was shut down")
    assert changed(task, after) == {"status": TaskStatus.Pending, "worker_id": None, "lease_expires_at": None}
    assert after.history[-1] == Event(3, TaskStatus.Pending, at(3), "released", 0, 1, "w1", "its worker was shut down")
