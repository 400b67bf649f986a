"""Rules 25 to 32: how an attempt ends, and what is kept of it."""

from datetime import timedelta

import pytest

from tenure.errors import LeaseLost
from tenure.retry import RetryPolicy
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    PLAIN,
    SECOND,
    brought_to,
    claim,
    claim_one,
    complete,
    fail,
    ids,
    read,
    release,
    reschedule,
)


async def test_a_completion_keeps_the_output_and_clears_the_lease(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(2)
    done = await complete(store, held, {"sum": 10**25, "emoji": "🎉", "none": None})
    stored = await read(store, held.id)
    assert stored == done
    assert stored.output == {"sum": 10**25, "emoji": "🎉", "none": None}
    assert (stored.status, stored.completed_at, stored.ended_at) == (TaskStatus.Completed, clock(), clock())
    assert (stored.worker_id, stored.lease_expires_at) == (None, None)


async def test_completing_twice_with_the_same_fence_is_fine(queue, store, clock):
    held = await brought_to(queue, "running")
    done = await complete(store, held, "first")
    clock.advance(1)
    assert await complete(store, held, "second") == done
    assert (await read(store, held.id)).output == "first"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_completing_what_has_ended_otherwise_is_an_error(queue, store, end):
    held = await brought_to(queue, "running")
    if end == "failed":
        await fail(store, held, permanent=True)
    else:
        await release(store, held)
        await queue.cancel(held.id)
    with pytest.raises(LeaseLost):
        await complete(store, held)
    assert (await read(store, held.id)).status == end


async def test_a_failure_is_kept_and_backs_off(queue, store, clock):
    await queue.submit("greet", ttl=1000)
    held = await claim_one(store)
    clock.advance(1)
    failed = await fail(store, held, "no route ☕")
    stored = await read(store, held.id)
    assert stored == failed
    assert (stored.status, stored.attempts, stored.failed_at) == (TaskStatus.Pending, 1, clock())
    assert (stored.last_error, stored.traceback) == ("no route ☕", "Traceback: no route ☕")
    assert (stored.worker_id, stored.lease_expires_at) == (None, None)
    assert stored.available_at == clock() + timedelta(seconds=PLAIN.delay(1))
    assert stored.expires_at == held.expires_at
    assert await claim(store) == []
    clock.advance(0.2)
    assert ids(await claim(store)) == [held.id]


async def test_a_task_that_keeps_failing_runs_as_often_as_it_may_and_is_dead(queue, store, clock):
    task = await queue.submit("greet", max_attempts=5)
    runs = 0
    while held := await claim(store):
        runs += 1
        assert held[0].attempt == runs
        await fail(store, held[0], f"failure {runs}")
        clock.advance(60)
    dead = await read(store, task.id)
    assert runs == 5
    assert (dead.status, dead.attempts, dead.limit) == (TaskStatus.Failed, 5, 5)
    assert (dead.last_error, dead.ended_at) == ("failure 5", dead.failed_at)
    assert ids((await queue.list("dlq")).tasks) == [task.id]


async def test_a_permanent_failure_is_dead_at_once(queue, store):
    held = await brought_to(queue, "running")
    dead = await fail(store, held, permanent=True)
    assert (dead.status, dead.attempts) == (TaskStatus.Failed, 1)
    assert await claim(store) == []


async def test_without_a_policy_the_first_failure_is_the_end(queue, store):
    await queue.submit("greet", max_attempts=5)
    held = await claim_one(store, limit=None)
    assert (await fail(store, held, policy=None)).status is TaskStatus.Failed


async def test_the_policy_of_the_task_decides_when_the_next_attempt_is(queue, store, clock):
    await queue.submit("greet", retry=RetryPolicy.patient())
    await fail(store, await claim_one(store))
    clock.advance(60 * SECOND - timedelta(microseconds=1))
    assert await claim(store) == []
    clock.advance(timedelta(microseconds=1))
    assert len(await claim(store)) == 1


async def test_a_reschedule_spends_no_attempt_and_keeps_the_deadline(queue, store, clock):
    await queue.submit("greet", ttl=100)
    held = await claim_one(store)
    again = await reschedule(store, held, 60)
    assert await read(store, held.id) == again
    assert (again.status, again.attempts, again.reschedules) == (TaskStatus.Pending, 0, 1)
    assert (again.available_at, again.expires_at) == (clock() + 60 * SECOND, held.expires_at)
    clock.advance(59.999_999)
    assert await claim(store) == []
    clock.advance(0.000_001)
    assert ids(await claim(store)) == [held.id]


async def test_a_reschedule_can_extend_the_deadline(queue, store, clock):
    await queue.submit("greet", ttl=100)
    held = await claim_one(store)
    again = await reschedule(store, held, 150, extend=100)
    assert again.expires_at == held.expires_at + 100 * SECOND
    clock.advance(150)
    assert ids(await claim(store)) == [held.id]


async def test_no_deadline_stays_no_deadline(queue, store):
    held = await brought_to(queue, "running")
    assert (await reschedule(store, held, 1, extend=100)).expires_at is None
    assert (await read(store, held.id)).expires_at is None


async def test_reschedules_are_bounded(queue, store, clock):
    await queue.submit("greet", max_reschedules=2)
    for _ in range(2):
        await reschedule(store, await claim_one(store), 1)
        clock.advance(1)
    dead = await reschedule(store, await claim_one(store), 1)
    assert (dead.status, dead.reschedules) == (TaskStatus.Failed, 2)
    assert "max reschedules" in dead.last_error


async def test_very_long_errors_are_cut_and_stored(queue, store):
    held = await brought_to(queue, "running")
    await fail(store, held, "x" * 1_000_000 + "the end")
    stored = await read(store, held.id)
    assert len(stored.last_error) < 3_000
    assert stored.last_error.endswith("the end")
