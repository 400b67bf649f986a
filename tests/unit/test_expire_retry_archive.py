"""Rules 33, 34, 36, 37: what ends by itself, what an operator brings back or puts away."""

import pytest

from tenure import lifecycle
from tenure.errors import CannotArchive, CannotExpire, CannotRetry
from tenure.task import Event, TaskStatus, decode, encode

from .builders import IN_STATUS, at, cancelled, changed, claimed, completed, failed, failed_once, pending, running


@pytest.mark.parametrize(
    "task",
    [pending(), pending(expires_at=at(5)), pending(available_at=at(60)), failed_once(running(), at(1))],
    ids=["due", "with a deadline", "scheduled", "backing off"],
)
def test_any_pending_task_can_be_expired_and_that_is_no_failure(task):
    after = lifecycle.expire(task, at(9))
    assert changed(task, after) == {"status": TaskStatus.Expired, "expired_at": at(9)}
    assert after.attempts == task.attempts
    assert after.history[-1] == Event(task.version + 1, TaskStatus.Expired, at(9), "expired", task.attempts, task.fence)


def test_expiring_what_is_not_pending_says_what_it_is():
    with pytest.raises(CannotExpire) as refusal:
        lifecycle.expire(running(), at(9))
    assert refusal.value.status == "running"
    assert str(refusal.value) == (
        "Cannot expire task t1: it is running. "
        "Only pending tasks expire; a running task is never touched by its deadline."
    )


def test_a_retried_failure_begins_a_new_life():
    dead = failed(max_attempts=3)
    after = lifecycle.retry(dead, at(100), by="ada")
    assert changed(dead, after) == {
        "status": TaskStatus.Pending,
        "available_at": at(100),
        "attempts": 0,
        "limit": 0,
    }
    assert after.last_error == "boom"
    assert after.history[-1] == Event(4, TaskStatus.Pending, at(100), "retried", 0, 1, None, "by ada")


def test_a_retried_cancellation_forgets_that_it_was_asked_to_stop():
    task = cancelled()
    after = lifecycle.retry(task, at(100))
    assert changed(task, after) == {
        "status": TaskStatus.Pending,
        "available_at": at(100),
        "cancel_requested": False,
        "cancelled_by": None,
        "cancel_reason": None,
        "cancelled_at": None,
        "limit": 0,
    }
    assert after.history[-1].why is None


def test_the_attempts_are_kept_if_asked_and_the_task_gets_one_more():
    dead = failed_once(claimed(failed_once(claimed(pending(), policy_max=2), at(1)), at(100)), at(101))
    assert (dead.status, dead.attempts) == (TaskStatus.Failed, 2)
    after = lifecycle.retry(dead, at(200), keep_attempts=True)
    assert (after.attempts, after.history[-1].attempt) == (2, 2)
    again = failed_once(claimed(after, at(200), policy_max=2), at(201))
    assert (again.status, again.attempts) == (TaskStatus.Failed, 3)


def test_a_new_life_has_its_own_limit_and_reschedules():
    task = lifecycle.reschedule(claimed(pending(max_reschedules=1), policy_max=1), 1, at(1), 1)
    dead = failed_once(claimed(task, at(2)), at(3))
    after = lifecycle.retry(dead, at(100))
    assert after.reschedules == 0
    assert claimed(after, at(100), policy_max=7).limit == 7


def test_the_fence_grows_on_in_the_next_life():
    assert claimed(lifecycle.retry(failed(), at(100)), at(100)).fence == 2


def test_retrying_twice_is_refused_the_second_time():
    after = lifecycle.retry(failed(), at(100))
    with pytest.raises(CannotRetry) as refusal:
        lifecycle.retry(after, at(101))
    assert str(refusal.value) == (
        "Cannot retry task t1: it is pending. "
        "Only failed and cancelled tasks can be retried; submit a new task instead."
    )


def test_the_name_of_who_retried_can_be_stored():
    task = lifecycle.retry(failed(), at(100), by="ad\udce9")
    assert decode(encode(task)) == task


@pytest.mark.parametrize("status", [TaskStatus.Completed, TaskStatus.Failed, TaskStatus.Cancelled, TaskStatus.Expired])
def test_an_ended_task_is_put_away_and_stays_readable(status):
    task = IN_STATUS[status]()
    after = lifecycle.archive(task, at(100))
    assert changed(task, after) == {"status": TaskStatus.Archived, "archived_at": at(100)}
    assert after.ended_at == task.ended_at
    assert after.history[-1].what == "archived"
    assert after.history[-1].why == f"was {status}"


def test_what_has_not_ended_is_not_archived():
    with pytest.raises(CannotArchive) as refusal:
        lifecycle.archive(pending(), at(100))
    assert str(refusal.value) == (
        "Cannot archive task t1: it is pending. Only ended tasks can be archived; cancel it first or wait for its end."
    )


@pytest.mark.parametrize(
    ("task", "ended_at"),
    [
        (pending(), None),
        (running(), None),
        (completed(), at(1)),
        (failed(), at(1)),
        (cancelled(), at(2)),
        (lifecycle.expire(failed_once(running(), at(1)), at(9)), at(9)),
        (lifecycle.cancel(failed_once(running(), at(1)), at(9)), at(9)),
        (lifecycle.retry(failed(), at(9)), None),
    ],
)
def test_a_task_knows_when_it_ended(task, ended_at):
    assert task.ended_at == ended_at
