"""The checker of promises finds each broken one, and nothing in a run that kept them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tenure import lifecycle
from tenure.lifecycle import Failure
from tenure.payload import NULL
from tenure.retry import RetryPolicy
from tenure.task import Event, TaskStatus
from tenure.testing import check

NOON = datetime(2026, 1, 28, 12, tzinfo=UTC)
replace = msgspec.structs.replace


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def submitted(task_id="t1", **words):
    return lifecycle.submit(now=NOON, id=task_id, type="greet", available_at=words.pop("available_at", NOON), **words)


def claimed(task, seconds=1, limit=3):
    return lifecycle.claim(task, worker_id="w1", now=at(seconds), lease=timedelta(seconds=30), policy_max=limit)


def completed(task, seconds=2):
    return lifecycle.complete(task, task.fence, NULL, at(seconds))


def failed(task, seconds=2):
    policy = RetryPolicy(base=0, jitter=0)
    return lifecycle.fail(task, task.fence, Failure("boom"), policy, at(seconds), 0.5)


def with_event(task, what, status, **words):
    """A history that no rule would write."""
    event = Event(task.version + 1, status, at(50), what, words.pop("attempt", task.attempts), task.fence)
    event = replace(event, **words)
    return replace(
        task,
        history=(*task.history, event),
        version=event.number,
        status=status,
        fence=event.fence,
    )


DONE = completed(claimed(submitted()))


def test_a_run_that_kept_every_promise_is_fine():
    retried = completed(claimed(failed(claimed(submitted("t2"))), 3), 4)
    waiting = submitted("t3")
    assert check([DONE, retried, waiting], ["t1", "t2", "t3"], executions=[("t1", 1), ("t2", 1), ("t2", 2)]) == []


def broken(tasks, *arguments, **words):
    found = check(tasks, *arguments, **words)
    assert len(found) == 1, found
    return found[0]


def test_an_acknowledged_task_that_is_gone_is_lost():
    assert broken([DONE], ["t1", "t2"]) == "t2: was acknowledged and is lost"


def test_a_task_that_stands_there_twice():
    assert "stands there 2 times" in broken([DONE, DONE])


def test_a_task_that_was_never_finished_when_all_should_be():
    assert broken([submitted()], all_ended=True) == "t1: is still pending"


def test_a_second_completion():
    again = with_event(DONE, "completed", TaskStatus.Completed, attempt=1)
    assert any("ended 2 times" in sentence for sentence in check([again]))


def test_a_write_of_an_older_fence():
    task = claimed(lifecycle.lapse(claimed(submitted()), at(40)), 41)
    stale = with_event(task, "failed", TaskStatus.Pending, attempt=2, fence=1)
    assert any("written by fence 1" in sentence for sentence in check([stale]))


def test_a_fence_that_does_not_grow():
    task = lifecycle.lapse(claimed(submitted()), at(40))
    same = with_event(task, "claimed", TaskStatus.Running, attempt=2, fence=1)
    assert any("has fence 1 after fence 1" in sentence for sentence in check([same]))


def test_a_cancelled_task_that_starts():
    started = with_event(lifecycle.cancel(submitted(), at(1)), "claimed", TaskStatus.Running, attempt=1, fence=1)
    assert any("went from cancelled to 'claimed'" in sentence for sentence in check([started]))


def test_a_start_before_the_due_time():
    early = claimed(submitted())
    assert "before it was due" in broken([replace(early, available_at=at(5))])


def test_a_start_after_the_deadline():
    assert "after its deadline" in broken([replace(claimed(submitted()), expires_at=at(1))])


def test_more_runs_than_allowed():
    task = submitted()
    for number in range(3):
        task = failed(claimed(task, number + 1, limit=9), number + 1)
    assert "was run 3 times, and 2 were allowed" in broken([replace(task, limit=2)])


@pytest.mark.parametrize("field", ["status", "version", "fence", "attempts"])
def test_a_state_that_its_history_does_not_tell(field):
    wrong = {"status": TaskStatus.Failed, "version": 9, "fence": 9, "attempts": 9}[field]
    assert any(
        f"{field} is {wrong}, but its history says" in sentence for sentence in check([replace(DONE, **{field: wrong})])
    )


def test_a_gap_in_a_short_history():
    gap = replace(DONE, history=(DONE.history[0], DONE.history[2]), version=2)
    assert check([gap]) != []


def test_an_execution_of_something_unknown_or_without_a_claim_or_twice():
    assert "never submitted" in broken([DONE], executions=[("t9", 1)])
    assert "no claim has given" in broken([DONE], executions=[("t1", 7)])
    assert "ran 2 times under the one claim" in broken([DONE], executions=[("t1", 1), ("t1", 1)])


def test_two_tasks_of_one_ordering_key_at_once():
    one = completed(claimed(submitted("t1", ordering_key="k"), 1), 5)
    other = completed(claimed(submitted("t2", ordering_key="k"), 3), 6)
    assert "began before t1" in broken([one, other], {"t1", "t2"})


def test_a_task_that_ends_at_the_instant_in_which_the_next_of_its_key_begins_is_fine():
    one = completed(claimed(submitted("t1", ordering_key="k"), 1), 1)
    other = claimed(submitted("t2", ordering_key="k"), 1)
    assert check([other, one], ["t1", "t2"]) == []


def test_tasks_of_one_ordering_key_in_the_wrong_order():
    one = completed(claimed(submitted("t1", ordering_key="k"), 5), 6)
    other = completed(claimed(submitted("t2", ordering_key="k"), 1), 2)
    assert "submitted earlier" in broken([one, other], ["t1", "t2"])
    assert check([one, other], {"t1", "t2"}) == []


def test_two_tasks_of_one_idempotency_key():
    one = submitted("t1", idempotency_key="k", remember_until=at(100))
    other = submitted("t2", idempotency_key="k", remember_until=at(100))
    assert "belongs to t1" in broken([one, other])
    later = replace(other, created_at=at(100))
    assert check([one, later]) == []
    assert check([one, other], one_task_per_key=False) == []
