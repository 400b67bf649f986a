"""Rule 35: cancelling what waits, and asking what runs."""

import pytest

from tenure import lifecycle
from tenure.errors import CannotClaim, LeaseLost
from tenure.lifecycle import Failure
from tenure.task import Event, TaskStatus, decode, encode

from .builders import OUTPUT, POLICY, at, changed, claimed, failed_once, pending, running


def asked(**words):
    return lifecycle.cancel(running(**words), at(1), "not needed", "ada")


def test_a_pending_task_ends_at_once():
    task = pending()
    after = lifecycle.cancel(task, at(1), reason="not needed", by="ada")
    assert changed(task, after) == {
        "status": TaskStatus.Cancelled,
        "cancel_requested": True,
        "cancelled_by": "ada",
        "cancel_reason": "not needed",
        "cancelled_at": at(1),
    }
    assert after.history[-1] == Event(2, TaskStatus.Cancelled, at(1), "cancelled", why="not needed; by ada")


@pytest.mark.parametrize("task", [pending(available_at=at(60)), failed_once(running(), at(1))])
def test_what_is_scheduled_or_backing_off_is_cancelled_too(task):
    assert lifecycle.cancel(task, at(2)).status is TaskStatus.Cancelled


def test_a_cancelled_pending_task_never_starts():
    with pytest.raises(CannotClaim):
        claimed(lifecycle.cancel(pending(), at(1)), at(2))


def test_a_running_task_is_asked_and_keeps_its_claim():
    task = running()
    after = lifecycle.cancel(task, at(1), reason="not needed", by="ada")
    assert changed(task, after) == {
        "cancel_requested": True,
        "cancelled_by": "ada",
        "cancel_reason": "not needed",
    }
    assert after.history[-1] == Event(
        3, TaskStatus.Running, at(1), "cancel requested", 0, 1, "w1", "not needed; by ada"
    )


def test_a_task_that_was_asked_and_stopped_is_cancelled():
    task = asked()
    after = lifecycle.stop(task, 1, at(2))
    assert changed(task, after) == {
        "status": TaskStatus.Cancelled,
        "cancelled_at": at(2),
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.history[-1] == Event(4, TaskStatus.Cancelled, at(2), "stopped", 0, 1, "w1", "not needed; by ada")


def test_a_task_that_was_asked_but_finished_is_completed():
    assert lifecycle.complete(asked(), 1, OUTPUT, at(2)).status is TaskStatus.Completed


@pytest.mark.parametrize("permanent", [False, True])
def test_a_task_that_was_asked_and_failed_is_cancelled_with_its_error(permanent):
    after = lifecycle.fail(asked(), 1, Failure("boom", "Traceback …", permanent=permanent), POLICY, at(2), 0.5)
    assert (after.status, after.attempts, after.last_error) == (TaskStatus.Cancelled, 1, "boom")
    assert (after.failed_at, after.cancelled_at, after.ended_at) == (at(2), at(2), at(2))
    assert (after.worker_id, after.lease_expires_at) == (None, None)
    assert after.history[-1] == Event(4, TaskStatus.Cancelled, at(2), "stopped", 1, 1, "w1", "not needed; by ada")


@pytest.mark.parametrize(
    "unfinished",
    [
        lambda task: lifecycle.release(task, 1, at(2), "shut down"),
        lambda task: lifecycle.reschedule(task, 1, at(2), 60),
        lambda task: lifecycle.lapse(task, at(30)),
    ],
    ids=["released", "rescheduled", "lapsed"],
)
def test_a_task_that_was_asked_does_not_go_back_to_pending(unfinished):
    after = unfinished(asked())
    assert after.status is TaskStatus.Cancelled
    assert after.history[-1].what == "stopped"
    assert (after.worker_id, after.lease_expires_at, after.reschedules) == (None, None, 0)


def test_asking_twice_changes_nothing_and_the_first_words_stay():
    task = asked()
    assert lifecycle.cancel(task, at(5), "another reason", "bob") is task


def test_cancelling_what_is_cancelled_changes_nothing():
    task = lifecycle.cancel(pending(), at(1))
    assert lifecycle.cancel(task, at(5), "again") is task


def test_stopping_twice_with_the_same_fence_changes_nothing():
    task = lifecycle.stop(asked(), 1, at(2))
    assert lifecycle.stop(task, 1, at(5)) is task
    with pytest.raises(LeaseLost):
        lifecycle.stop(task, 2, at(5))


@pytest.mark.parametrize(
    ("reason", "by", "why"),
    [
        (None, None, None),
        ("not needed", None, "not needed"),
        (None, "ada", "by ada"),
        ("not needed", "ada", "not needed; by ada"),
        ("", "", None),
    ],
)
def test_the_history_says_what_was_said(reason, by, why):
    assert lifecycle.cancel(pending(), at(1), reason, by).history[-1].why == why
    assert lifecycle.cancel(running(), at(1), reason, by).history[-1].why == why


@pytest.mark.parametrize(("reason", "by"), [("caf\udce9", "ad\udce9"), (404, 42)])
def test_words_of_any_kind_can_be_stored(reason, by):
    task = lifecycle.cancel(pending(), at(1), reason, by)
    assert decode(encode(task)) == task
    assert isinstance(task.cancelled_by, str)
