"""Rules 33 and 34: a pending task past its deadline is never run, and a running one is never touched."""

import pytest

from tenure.errors import CannotExpire, TaskNotFound
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    MICROSECOND,
    SECOND,
    ask,
    brought_to,
    claim,
    claim_one,
    complete,
    fail,
    ids,
    read,
)


async def test_a_task_submitted_already_expired_never_runs(queue, store, clock):
    task = await queue.submit("greet", ttl=0)
    assert task.expires_at == clock()
    answer = await ask(store, 10)
    assert list(answer.tasks) == []
    assert ids(answer.overdue) == [task.id]
    assert (await read(store, task.id)).status is TaskStatus.Expired


async def test_a_claim_marks_what_is_too_late(queue, store, clock):
    late = await queue.submit("greet", ttl=10)
    fresh = await queue.submit("greet", ttl=11)
    clock.advance(10)
    answer = await ask(store, 10)
    assert ids(answer.tasks) == [fresh.id]
    expired = await read(store, late.id)
    assert list(answer.overdue) == [expired]
    assert (expired.status, expired.expired_at, expired.updated_at) == (TaskStatus.Expired, clock(), clock())
    assert (expired.attempts, expired.last_error, expired.history[-1].what) == (0, None, "expired")


@pytest.mark.parametrize("where", [{"type": "other"}, {"queue": "elsewhere"}, {"delay": 1000}], ids=str)
async def test_the_deadline_holds_also_for_tasks_that_nobody_polls_for(queue, store, clock, where):
    task = await queue.submit(where.pop("type", "greet"), ttl=10, **where)
    clock.advance(10)
    (swept,) = await Sweeper(store).sweep()
    assert swept == await read(store, task.id)
    assert swept.status is TaskStatus.Expired


async def test_the_deadline_holds_while_a_task_backs_off(queue, store, clock):
    await queue.submit("greet", ttl=0.1)
    held = await claim_one(store)
    await fail(store, held)
    clock.advance(0.1)
    await Sweeper(store).sweep()
    expired = await read(store, held.id)
    assert (expired.status, expired.attempts, expired.ended_at) == (TaskStatus.Expired, 1, clock())
    clock.advance(60)
    assert await claim(store) == []


async def test_a_running_task_is_never_touched_by_its_deadline(queue, store, clock):
    await queue.submit("greet", ttl=10)
    held = await claim_one(store, lease=1000 * SECOND)
    clock.advance(500)
    assert await Sweeper(store).sweep() == []
    assert await claim(store) == []
    assert (await complete(store, held)).status is TaskStatus.Completed


async def test_a_claim_that_lapsed_after_the_deadline_expires_and_does_not_run_again(queue, store, clock):
    await queue.submit("greet", ttl=10)
    held = await claim_one(store)
    clock.advance(60)
    assert await claim(store) == []
    assert await claim(store) == []
    await Sweeper(store).sweep()
    assert (await read(store, held.id)).status is TaskStatus.Expired


async def test_a_deadline_is_not_reached_a_microsecond_before(queue, store, clock):
    task = await queue.submit("greet", ttl=10)
    clock.advance(10 * SECOND - MICROSECOND)
    assert await Sweeper(store).sweep() == []
    assert ids(await claim(store)) == [task.id]


async def test_mark_expired_ends_any_pending_task(queue, store, clock):
    without_deadline = await queue.submit("greet", delay=100)
    expired = await queue.mark_expired(without_deadline.id)
    assert await read(store, expired.id) == expired
    assert (expired.status, expired.expired_at) == (TaskStatus.Expired, clock())
    clock.advance(100)
    assert await claim(store) == []


@pytest.mark.parametrize("status", [status for status in TaskStatus if status is not TaskStatus.Pending])
async def test_mark_expired_refuses_what_is_not_pending(queue, store, status):
    task = await brought_to(queue, status)
    with pytest.raises(CannotExpire) as refusal:
        await queue.mark_expired(task.id)
    assert refusal.value.status == status
    assert await read(store, task.id) == task


async def test_mark_expired_of_an_unknown_task_says_so(queue):
    with pytest.raises(TaskNotFound):
        await queue.mark_expired("nobody")


async def test_an_expired_task_is_no_dead_letter(queue):
    task = await brought_to(queue, "expired")
    assert (await queue.list("dlq")).tasks == []
    assert ids((await queue.list("expired")).tasks) == [task.id]


async def test_a_sweep_is_bounded_and_goes_on_where_it_stopped(queue, store, clock):
    await queue.submit_many([("greet", number) for number in range(1200)], ttl=1)
    clock.advance(1)
    sizes = []
    while swept := await Sweeper(store).sweep():
        sizes.append(len(swept))
    assert sum(sizes) == 1200
    assert max(sizes) <= 500 * len(store.parts())
    assert (await queue.counts())[TaskStatus.Expired] == 1200
