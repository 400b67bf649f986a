"""Rules 4, 23, 33: what time alone does to a task."""

from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.errors import TransitionRefused
from tenure.lifecycle import Failure
from tenure.task import Event, TaskStatus
from tenure.times import FOREVER

from .builders import LEASE, NOW, POLICY, at, changed, claimed, failed, pending, running

MICROSECOND = timedelta(microseconds=1)
LAPSE = NOW + LEASE


@pytest.mark.parametrize(("now", "lapses"), [(LAPSE - MICROSECOND, False), (LAPSE, True), (LAPSE + MICROSECOND, True)])
def test_a_lease_is_valid_until_just_before_its_end(now, lapses):
    task = running()
    assert task.is_leased_at(now) is not lapses
    assert (lifecycle.overdue(task, now) is not None) is lapses
    if lapses:
        assert lifecycle.lapse(task, now) == lifecycle.overdue(task, now)
    else:
        with pytest.raises(TransitionRefused, match="only when its lease has run out"):
            lifecycle.lapse(task, now)


@pytest.mark.parametrize(
    ("since", "now", "became"),
    [
        (None, LAPSE, True),
        (None, LAPSE - MICROSECOND, False),
        (LAPSE - MICROSECOND, LAPSE, True),
        (LAPSE, at(60), False),
    ],
)
@pytest.mark.parametrize("task", [running(), pending(expires_at=LAPSE)], ids=["lease", "deadline"])
def test_time_catches_up_with_a_task_at_one_moment(task, since, now, became):
    assert lifecycle.became_overdue(task, since, now) is became


def test_a_lapse_counts_as_one_failed_attempt_and_the_task_is_due_at_once():
    task = running()
    after = lifecycle.lapse(task, LAPSE)
    assert changed(task, after) == {
        "status": TaskStatus.Pending,
        "attempts": 1,
        "last_error": "lease lapsed (held by w1)",
        "failed_at": LAPSE,
        "available_at": LAPSE,
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.history[-1] == Event(3, TaskStatus.Pending, LAPSE, "lapsed", 1, 1, "w1", "lease lapsed (held by w1)")


def test_a_lapse_with_no_attempts_left_is_the_end():
    task, now = pending(max_attempts=3), NOW
    for _ in range(3):
        task = claimed(task, now)
        now = task.lease_expires_at
        task = lifecycle.lapse(task, now)
    assert (task.status, task.attempts) == (TaskStatus.Failed, 3)


def test_a_lapse_forgets_the_traceback_of_an_earlier_failure():
    task = lifecycle.fail(running(), 1, Failure("boom", "Traceback …"), POLICY, at(1), 0.5)
    task = claimed(task, at(11))
    assert lifecycle.lapse(task, task.lease_expires_at).traceback is None


def test_a_renewed_lease_lapses_later():
    task = lifecycle.renew(running(), 1, LAPSE + LEASE)
    assert lifecycle.overdue(task, LAPSE) is None
    assert lifecycle.overdue(task, LAPSE + LEASE).status is TaskStatus.Pending


@pytest.mark.parametrize(
    ("task", "now", "status"),
    [
        (pending(), at(10**9), None),
        (pending(expires_at=at(5)), at(5) - MICROSECOND, None),
        (pending(expires_at=at(5)), at(5), TaskStatus.Expired),
        (pending(expires_at=at(5), available_at=at(60)), at(5), TaskStatus.Expired),
        (running(expires_at=at(5)), at(6), None),
        (running(expires_at=at(5)), LAPSE, TaskStatus.Pending),
        (failed(expires_at=at(5)), at(6), None),
    ],
)
def test_time_alone_lapses_claims_and_expires_what_waits(task, now, status):
    after = lifecycle.overdue(task, now)
    assert (after and after.status) == status


@pytest.mark.parametrize("delay", [0, 0.25, 1e9, timedelta(days=1)])
def test_later_adds(delay):
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    assert lifecycle.later(NOW, delay) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("delay", [1e12, 1e300, float("inf"), timedelta.max])
def test_later_goes_as_far_as_a_calendar_goes(delay):
    assert lifecycle.later(NOW, delay) == FOREVER
