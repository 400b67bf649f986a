"""Rules 35 to 37: cancel, retry and archive, from every status."""

import asyncio

import pytest

from tenure.errors import CannotArchive, CannotCancel, CannotRetry, LeaseLost, TaskNotFound
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    LEASE,
    brought_to,
    claim,
    claim_one,
    complete,
    fail,
    ids,
    read,
    release,
    reschedule,
    stop,
)


async def test_a_cancelled_pending_task_ends_at_once_and_never_runs(queue, store, clock):
    task = await queue.submit("greet", delay=10)
    cancelled = await queue.cancel(task.id, "not needed ☕", "ada")
    assert await read(store, task.id) == cancelled
    assert (cancelled.status, cancelled.cancelled_at) == (TaskStatus.Cancelled, clock())
    assert (cancelled.cancel_reason, cancelled.cancelled_by) == ("not needed ☕", "ada")
    clock.advance(60)
    assert await claim(store) == []


async def test_a_running_task_is_asked_to_stop_and_ends_cancelled_if_it_does(queue, store):
    held = await brought_to(queue, "running")
    asked = await queue.cancel(held.id, "enough", "ada")
    assert (asked.status, asked.cancel_requested, asked.fence) == (TaskStatus.Running, True, held.fence)
    assert asked.lease_expires_at == held.lease_expires_at
    stopped = await stop(store, held)
    assert await read(store, held.id) == stopped
    assert (stopped.status, stopped.cancelled_by, stopped.cancel_reason) == (TaskStatus.Cancelled, "ada", "enough")


async def test_a_running_task_that_finished_anyway_is_completed(queue, store):
    held = await brought_to(queue, "running")
    await queue.cancel(held.id)
    assert (await complete(store, held, "done")).status is TaskStatus.Completed


@pytest.mark.parametrize("step", [fail, release, lambda store, held: reschedule(store, held, 5)])
async def test_a_task_that_was_asked_to_stop_does_not_come_back(queue, store, clock, step):
    held = await brought_to(queue, "running")
    await queue.cancel(held.id)
    assert (await step(store, held)).status is TaskStatus.Cancelled
    clock.advance(60)
    assert await claim(store) == []


async def test_a_task_that_was_asked_to_stop_and_whose_worker_died_is_cancelled(queue, store, clock):
    held = await brought_to(queue, "running")
    await queue.cancel(held.id)
    clock.advance(LEASE)
    assert await claim(store) == []
    assert (await read(store, held.id)).status is TaskStatus.Cancelled


async def test_cancelling_twice_changes_nothing_more(queue, store, clock):
    pending, running = await queue.submit("other"), await brought_to(queue, "running")
    first = [await queue.cancel(task.id, "why", "ada") for task in (pending, running)]
    clock.advance(1)
    assert [await queue.cancel(task.id, "again", "bob") for task in (pending, running)] == first
    assert await store.get([pending.id, running.id]) == first


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "archived"])
async def test_what_has_ended_cannot_be_cancelled(queue, store, status):
    task = await brought_to(queue, status)
    with pytest.raises(CannotCancel, match=status):
        await queue.cancel(task.id)
    assert await read(store, task.id) == task


async def test_cancel_many_says_what_became_of_each(queue):
    done, open_one = await brought_to(queue, "completed"), await queue.submit("greet")
    result = await queue.cancel_many([done.id, "nobody", open_one.id], "clean up")
    assert ids(result.cancelled) == [open_one.id]
    assert {task_id: type(error) for task_id, error in result.refused.items()} == {
        done.id: CannotCancel,
        "nobody": TaskNotFound,
    }


async def test_cancel_many_of_each_status_does_what_cancelling_each_would(queue, store):
    tasks = [await brought_to(queue, status, status.value) for status in TaskStatus for _ in range(2)]
    result = await queue.cancel_many(ids(tasks), "clean up", "ada")
    open_ones = [task.id for task in tasks if task.status in ("pending", "running", "cancelled")]
    assert ids(result.cancelled) == open_ones
    assert list(result.refused) == [task.id for task in tasks if task.id not in open_ones]
    assert {type(error) for error in result.refused.values()} == {CannotCancel}
    assert await store.get(open_ones) == result.cancelled


async def test_two_that_cancel_the_same_many_at_once_are_both_told_that_all_are_cancelled(queue, store):
    tasks = await queue.submit_many([("greet", number) for number in range(60)])
    results = await asyncio.gather(*(queue.cancel_many(ids(tasks), by=who) for who in ("ada", "bob")))
    assert [(len(result.cancelled), result.refused) for result in results] == [(60, {}), (60, {})]
    assert [len(task.history) for task in await store.get(ids(tasks))] == [2] * 60


async def test_cancel_by_type_reaches_every_open_task_of_the_type_and_no_other(queue, store):
    held = await brought_to(queue, "running")
    waiting = await queue.submit_many([("greet", number) for number in range(30)], delay=10)
    other = await queue.submit("other")
    result = await queue.cancel_by_type("greet", "wrong release", "ada")
    assert sorted(ids(result.cancelled)) == sorted(ids([held, *waiting]))
    assert (await read(store, held.id)).cancel_requested is True
    assert (await read(store, other.id)).status is TaskStatus.Pending
    assert (await queue.counts())[TaskStatus.Cancelled] == 30


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_retried_task_is_due_at_once_with_a_fresh_count(queue, store, clock, status):
    task = await brought_to(queue, status)
    clock.advance(60)
    again = await queue.retry(task.id, by="ada")
    assert await read(store, task.id) == again
    assert (again.status, again.attempts, again.available_at) == (TaskStatus.Pending, 0, clock())
    assert (again.cancel_requested, again.cancelled_by, again.ended_at) == (False, None, None)
    held = await claim_one(store)
    assert (held.id, held.attempt, held.limit) == (task.id, 1, 25)
    assert (await complete(store, held)).status is TaskStatus.Completed


async def test_a_retry_can_keep_the_count_of_attempts(queue, store):
    task = await brought_to(queue, "failed")
    again = await queue.retry(task.id, keep_attempts=True)
    assert again.attempts == task.attempts == 1
    assert (await claim_one(store)).attempt == 2


@pytest.mark.parametrize("status", ["pending", "running", "completed", "expired", "archived"])
async def test_only_failed_and_cancelled_tasks_can_be_retried(queue, store, status):
    task = await brought_to(queue, status)
    with pytest.raises(CannotRetry, match=status):
        await queue.retry(task.id)
    assert await read(store, task.id) == task


async def test_the_worker_of_an_earlier_life_cannot_end_the_next(queue, store):
    held = await brought_to(queue, "running")
    await fail(store, held, permanent=True)
    await queue.retry(held.id)
    with pytest.raises(LeaseLost):
        await complete(store, held)
    new = await claim_one(store)
    with pytest.raises(LeaseLost):
        await complete(store, held)
    assert (await complete(store, new)).status is TaskStatus.Completed


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired"])
async def test_an_archived_task_stays_readable(queue, store, clock, status):
    task = await brought_to(queue, status)
    clock.advance(5)
    archived = await queue.archive(task.id)
    assert await read(store, task.id) == archived
    assert (archived.status, archived.archived_at, archived.ended_at) == (
        TaskStatus.Archived,
        clock(),
        task.ended_at,
    )
    assert archived.input == task.input
    assert await queue.archive(task.id) == archived
    assert ids((await queue.list("archived")).tasks) == [task.id]
    assert (await queue.list(status)).tasks == []


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_an_open_task_cannot_be_archived(queue, store, status):
    task = await brought_to(queue, status)
    with pytest.raises(CannotArchive, match=status):
        await queue.archive(task.id)
    assert await read(store, task.id) == task


@pytest.mark.parametrize("call", ["cancel", "retry", "archive", "mark_expired", "history", "explain"])
async def test_an_unknown_task_is_said_to_be_unknown(queue, call):
    with pytest.raises(TaskNotFound, match="nobody"):
        await getattr(queue, call)("nobody")
