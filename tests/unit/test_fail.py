"""Rules 26-29: an attempt failed."""

import pytest

from tenure import lifecycle
from tenure.lifecycle import ERROR_LIMIT, TRACEBACK_LIMIT, Failure
from tenure.retry import RetryPolicy
from tenure.task import Event, TaskStatus, decode, encode
from tenure.times import FOREVER

from .builders import NOW, POLICY, at, changed, claimed, failed_once, pending, running


def test_a_failure_counts_and_puts_the_task_off():
    task = running(expires_at=at(3600))
    after = lifecycle.fail(task, 1, Failure("ValueError: boom", "Traceback …"), POLICY, at(3), 0.5)
    assert changed(task, after) == {
        "status": TaskStatus.Pending,
        "attempts": 1,
        "last_error": "ValueError: boom",
        "traceback": "Traceback …",
        "failed_at": at(3),
        "available_at": at(13),
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.history[-1] == Event(3, TaskStatus.Pending, at(3), "failed", 1, 1, "w1", "ValueError: boom")
    assert after.expires_at == at(3600)


def test_each_further_failure_waits_as_the_policy_says():
    task, now, waits = pending(), NOW, []
    for _ in range(5):
        task = failed_once(claimed(task, now), now)
        waits.append((task.available_at - now).total_seconds())
        now = task.available_at
    assert waits == [10, 20, 40, 80, 160]


def test_the_roll_decides_the_jitter():
    policy = RetryPolicy(base=10, jitter=0.2, max_delay=None)
    low, high = (lifecycle.fail(running(), 1, Failure("x"), policy, NOW, roll) for roll in (0.0, 1.0))
    assert (low.available_at, high.available_at) == (at(8), at(12))


def test_a_policy_of_the_task_decides_when():
    task = running(retry=RetryPolicy(base=7, jitter=0, max_delay=None))
    assert failed_once(task, NOW, policy=POLICY).available_at == at(7)
    assert failed_once(task, NOW, policy=None).available_at == at(7)


@pytest.mark.parametrize(
    ("job", "policy_max", "executions"),
    [(20, 10, 10), (5, 25, 5), (0, 25, 25), (0, 0, 1), (1, 25, 1), (5, 0, 5), (0, None, 1)],
)
def test_a_task_that_always_fails_runs_as_often_as_its_limit(job, policy_max, executions):
    task, now, runs = pending(max_attempts=job), NOW, 0
    while task.status is TaskStatus.Pending:
        task = failed_once(claimed(task, now, policy_max=policy_max), now)
        now, runs = task.available_at, runs + 1
    assert runs == executions
    assert task.status is TaskStatus.Failed
    assert task.attempts == task.limit == executions


def test_the_last_failure_makes_a_dead_letter():
    task = running(max_attempts=1)
    after = failed_once(task, at(3))
    assert changed(task, after) == {
        "status": TaskStatus.Failed,
        "attempts": 1,
        "last_error": "boom",
        "failed_at": at(3),
        "worker_id": None,
        "lease_expires_at": None,
    }
    assert after.history[-1] == Event(3, TaskStatus.Failed, at(3), "failed", 1, 1, "w1", "boom")


@pytest.mark.parametrize(
    ("failure", "policy"),
    [(Failure("no use", permanent=True), POLICY), (Failure("boom"), None), (Failure("no", permanent=True), None)],
)
def test_a_permanent_failure_or_no_policy_is_the_end_at_once(failure, policy):
    dead = lifecycle.fail(running(), 1, failure, policy, at(3), 0.5)
    assert (dead.status, dead.attempts, dead.limit) == (TaskStatus.Failed, 1, 25)


def test_a_delay_past_the_calendar_is_as_late_as_it_goes():
    policy = RetryPolicy(base=1e300, max_delay=None, jitter=0)
    assert failed_once(running(), NOW, policy=policy).available_at == FOREVER


def test_long_errors_keep_their_end():
    failure = Failure("a" * ERROR_LIMIT + "the point", "b" * TRACEBACK_LIMIT + "the line")
    task = lifecycle.fail(running(), 1, failure, POLICY, at(3), 0.5)
    assert len(task.last_error) == ERROR_LIMIT + 2
    assert task.last_error.startswith("… a")
    assert task.last_error.endswith("the point")
    assert len(task.traceback) == TRACEBACK_LIMIT + 2
    assert task.traceback.endswith("the line")
    assert task.history[-1].why == task.last_error


def test_an_error_of_just_the_limit_is_kept_whole():
    failure = Failure("a" * ERROR_LIMIT, "b" * TRACEBACK_LIMIT)
    task = lifecycle.fail(running(), 1, failure, POLICY, at(3), 0.5)
    assert (task.last_error, task.traceback) == (failure.text, failure.traceback)


def test_an_error_that_is_no_unicode_can_be_stored():
    task = lifecycle.fail(running(), 1, Failure("no file 'caf\udce9'", "…\udce9"), POLICY, at(3), 0.5)
    assert task.last_error == "no file 'caf\\udce9'"
    assert decode(encode(task)) == task
