"""Rules 22, 25, 32: the handler returned."""

import pytest

from tenure import lifecycle
from tenure.errors import LeaseLost
from tenure.task import Event, TaskStatus

from .builders import LEASE, NOW, OUTPUT, at, changed, claimed, failed_once, pending, running

LAPSE = NOW + LEASE


def test_success_keeps_the_output_and_lets_go_of_the_lease():
    task = running()
    after = lifecycle.complete(task, 1, OUTPUT, at(3))
    assert changed(task, after) == {
        "status": TaskStatus.Completed,
        "completed_at": at(3),
        "output_json": OUTPUT,
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.output == {"sent": True}
    assert after.history[-1] == Event(3, TaskStatus.Completed, at(3), "completed", attempt=1, fence=1, worker="w1")


def test_completing_twice_with_the_same_fence_changes_nothing():
    task = lifecycle.complete(running(), 1, OUTPUT, at(3))
    assert lifecycle.complete(task, 1, OUTPUT, at(9)) is task


def test_completing_again_with_another_fence_is_an_error():
    task = lifecycle.complete(running(), 1, OUTPUT, at(3))
    with pytest.raises(LeaseLost):
        lifecycle.complete(task, 2, OUTPUT, at(9))


def test_a_task_that_finishes_after_its_deadline_is_completed():
    task = running(expires_at=at(2))
    assert lifecycle.complete(task, 1, OUTPUT, at(3)).status is TaskStatus.Completed


def test_a_worker_that_is_late_but_not_yet_noticed_completes():
    assert lifecycle.complete(running(), 1, OUTPUT, LAPSE + LEASE).status is TaskStatus.Completed


def test_a_lapsed_worker_completes_while_nobody_else_has_claimed():
    lapsed = lifecycle.lapse(running(), LAPSE)
    after = lifecycle.complete(lapsed, 1, OUTPUT, LAPSE + LEASE)
    assert changed(lapsed, after) == {
        "status": TaskStatus.Completed,
        "completed_at": LAPSE + LEASE,
        "output_json": OUTPUT,
    }
    assert after.history[-1] == Event(
        4, TaskStatus.Completed, LAPSE + LEASE, "completed", attempt=1, fence=1, worker="w1"
    )


def test_a_lapsed_worker_cannot_complete_what_another_has_claimed():
    second = claimed(lifecycle.lapse(running(), LAPSE), LAPSE, by="w2")
    with pytest.raises(LeaseLost):
        lifecycle.complete(second, 1, OUTPUT, LAPSE)
    assert lifecycle.complete(second, 2, OUTPUT, LAPSE).history[-1].attempt == 2


def test_a_lapsed_worker_cannot_complete_with_a_fence_it_never_had():
    with pytest.raises(LeaseLost):
        lifecycle.complete(lifecycle.lapse(running(), LAPSE), 2, OUTPUT, LAPSE)


@pytest.mark.parametrize(
    "given_up",
    [
        lambda task: failed_once(task, at(1)),
        lambda task: lifecycle.release(task, 1, at(1), "shut down"),
        lambda task: lifecycle.reschedule(task, 1, at(1), 60),
    ],
    ids=["failed", "released", "rescheduled"],
)
def test_a_worker_that_gave_its_claim_up_cannot_complete(given_up):
    with pytest.raises(LeaseLost):
        lifecycle.complete(given_up(running()), 1, OUTPUT, at(2))


def test_a_lapsed_worker_cannot_complete_what_the_lapse_killed():
    dead = lifecycle.lapse(claimed(pending(), policy_max=None), LAPSE)
    assert dead.status is TaskStatus.Failed
    with pytest.raises(LeaseLost):
        lifecycle.complete(dead, 1, OUTPUT, LAPSE)
