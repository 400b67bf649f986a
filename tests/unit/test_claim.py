"""Rules 4, 18-22, 28: taking a task."""

from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.errors import CannotClaim
from tenure.retry import RetryPolicy
from tenure.task import Event, Progress, TaskStatus
from tenure.times import FOREVER

from .builders import LEASE, NOW, at, changed, claimed, failed_once, pending, replace, running

MICROSECOND = timedelta(microseconds=1)


def test_a_claim_takes_the_task_until_the_lease_ends():
    task = pending()
    after = claimed(task, at(5), by="w7")
    assert changed(task, after) == {
        "status": TaskStatus.Running,
        "fence": 1,
        "worker_id": "w7",
        "started_at": at(5),
        "lease_expires_at": at(5) + LEASE,
        "limit": 25,
    }
    assert after.history[-1] == Event(2, TaskStatus.Running, at(5), "claimed", attempt=1, fence=1, worker="w7")


def test_every_claim_raises_the_fence():
    task = running()
    for number in range(2, 6):
        task = claimed(lifecycle.release(task, task.fence, NOW, "shut down"), NOW)
        assert task.fence == number


def test_a_store_may_give_the_fence_itself():
    task = lifecycle.claim(pending(), worker_id="w", now=NOW, lease=LEASE, policy_max=25, fence=4711)
    assert (task.fence, task.history[-1].fence) == (4711, 4711)


def test_a_claim_forgets_the_progress_of_the_attempt_before():
    task = replace(pending(), progress=Progress(3, 10))
    assert claimed(task).progress is None


@pytest.mark.parametrize(
    ("available_at", "expires_at", "now", "taken"),
    [
        (at(10), None, at(10) - MICROSECOND, False),
        (at(10), None, at(10), True),
        (at(10), None, at(10) + MICROSECOND, True),
        (NOW, at(10), at(10) - MICROSECOND, True),
        (NOW, at(10), at(10), False),
        (NOW, at(10), at(10) + MICROSECOND, False),
        (at(10), at(10), at(10), False),
        (NOW, NOW, NOW, False),
        (at(10), at(5), at(7), False),
    ],
)
def test_a_task_is_taken_from_when_it_is_due_until_just_before_its_deadline(available_at, expires_at, now, taken):
    task = pending(available_at=available_at, expires_at=expires_at)
    assert (task.is_available_at(now) and not task.is_expired_at(now)) is taken
    if taken:
        assert claimed(task, now).started_at == now
    else:
        with pytest.raises(CannotClaim):
            claimed(task, now)


def test_a_task_that_backs_off_is_not_taken_early():
    task = failed_once(running(), at(1))
    with pytest.raises(CannotClaim):
        claimed(task, at(11) - MICROSECOND)
    assert claimed(task, at(11)).status is TaskStatus.Running


@pytest.mark.parametrize(
    ("job", "policy", "limit"),
    [
        (20, 10, 10),
        (10, 20, 10),
        (5, 5, 5),
        (5, 0, 5),
        (0, 7, 7),
        (0, 0, 1),
        (1, 25, 1),
        (5, None, 1),
        (0, None, 1),
    ],
)
def test_the_first_claim_fixes_the_limit(job, policy, limit):
    assert claimed(pending(max_attempts=job), policy_max=policy).limit == limit


@pytest.mark.parametrize("policy_max", [3, 25, None])
def test_a_policy_of_the_task_itself_counts_instead_of_the_workers(policy_max):
    own = RetryPolicy(max_attempts=4)
    assert claimed(pending(retry=own), policy_max=policy_max).limit == 4
    assert claimed(pending(retry=own, max_attempts=2), policy_max=policy_max).limit == 2


def test_the_limit_holds_for_every_later_worker():
    task = failed_once(claimed(pending(), policy_max=3), at(1))
    assert claimed(task, at(100), policy_max=99).limit == 3
    assert claimed(task, at(100), policy_max=None).limit == 3


def test_a_lease_longer_than_the_calendar_lasts_for_ever():
    task = lifecycle.claim(pending(), worker_id="w", now=NOW, lease=timedelta.max, policy_max=25)
    assert task.lease_expires_at == FOREVER
