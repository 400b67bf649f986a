"""Rules 8, 16 and 37: what is forgotten, when, and what stays known of it."""

from datetime import timedelta

import pytest

from tenure.stores.base import Query
from tenure.sweeper import Sweeper
from tenure.task import ENDED, TaskStatus
from tenure.testing.conformance.steps import (
    MICROSECOND,
    brought_to,
    claim,
    everything,
    ids,
)

WEEK = timedelta(days=7)


async def test_by_default_completed_cancelled_and_expired_tasks_go_after_a_week_and_failed_ones_stay(
    queue, store, clock
):
    tasks = {status: await brought_to(queue, status, status.value) for status in TaskStatus}
    clock.advance(WEEK - MICROSECOND)
    await Sweeper(store).prune()
    assert len(await everything(store)) == len(tasks)
    clock.advance(MICROSECOND)
    await Sweeper(store).prune()
    assert {task.status for task in await everything(store)} == {"pending", "running", "failed", "archived"}


@pytest.mark.parametrize("status", ENDED)
async def test_retention_can_be_set_for_each_status(queue, store, clock, status):
    for each in TaskStatus:
        await brought_to(queue, each, each.value)
    clock.advance(10)
    assert await Sweeper(store, {status: timedelta(seconds=10)}).prune() == 1
    assert {task.status for task in await everything(store)} == set(TaskStatus) - {status}


async def test_what_was_kept_longest_goes_first_and_a_call_is_bounded(queue_of_part, part, clock):
    tasks = []
    for _ in range(6):
        tasks.append(await brought_to(queue_of_part, "completed"))
        clock.advance(1)
    assert await part.prune({TaskStatus.Completed: clock()}, clock(), 2) == 2
    assert ids(reversed(await everything(part))) == ids(tasks[2:])
    assert await part.prune({TaskStatus.Completed: tasks[3].completed_at}, clock(), 100) == 2
    assert ids(reversed(await everything(part))) == ids(tasks[4:])


async def test_a_retried_task_is_kept(queue, store, clock):
    task = await brought_to(queue, "failed")
    await queue.retry(task.id)
    clock.advance(WEEK)
    assert await store.prune(dict.fromkeys(ENDED, clock()), clock(), 100) == 0
    assert ids(await claim(store)) == [task.id]


async def test_a_pruned_task_leaves_no_trace_in_any_listing_or_figure(queue, store, clock):
    await brought_to(queue, "completed", tags=["vip"], ordering_key="k", task_id="mine", idempotency_key="key")
    assert await store.prune({TaskStatus.Completed: clock()}, clock(), 100) == 1
    assert await store.count() == []
    assert await store.get(["mine"]) == [None]
    for query in (Query(), Query(tag="vip"), Query(ordering_key="k"), Query(status=TaskStatus.Completed)):
        assert (await store.find(query)).tasks == []
    fresh = await queue.submit("greet", tags=["other"])
    assert (await queue.list(tag="vip")).tasks == []
    assert ids(await claim(store)) == [fresh.id]


async def test_a_stone_says_how_the_task_ended_but_not_what_it_carried(queue, store, clock):
    await brought_to(queue, "completed", task_id="mine", headers={"secret": "yes"})
    await store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    stone = await queue.submit("greet", task_id="mine")
    assert (stone.created, stone.status, stone.completed_at) == (False, TaskStatus.Completed, clock())
    assert (stone.input, stone.output, stone.headers) == (None, None, {})


async def test_stones_and_stale_records_are_forgotten_too_and_counted(queue, store, clock):
    await brought_to(queue, "completed", idempotency_key="k", idempotency_ttl=100)
    await brought_to(queue, "completed", task_id="mine")
    await store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    clock.advance(100 - 1e-6)
    assert await store.prune({}, clock(), 100) == 0
    clock.advance(1e-6)
    assert await store.prune({}, clock(), 100) == 2
    clock.advance(timedelta(days=30))
    assert await store.prune({}, clock(), 100) == 1
    assert await store.prune({}, clock(), 100) == 0


async def test_what_a_prune_leaves_behind_is_seen_by_the_next_one_however_soon_it_comes(queue, store, clock):
    await brought_to(queue, "archived", idempotency_key="k", idempotency_ttl=timedelta(days=2))
    await store.prune({}, clock(), 100)
    assert await store.prune({TaskStatus.Archived: clock()}, clock(), 100) == 1
    clock.advance(timedelta(days=2))
    assert await store.prune({}, clock(), 100) == 2


async def test_a_task_without_key_or_chosen_id_is_forgotten_for_good(queue, store, clock):
    task = await brought_to(queue, "completed")
    await store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    assert await queue.get(task.id) is None
    clock.advance(timedelta(days=400))
    assert await store.prune({}, clock(), 100) == 0


async def test_a_pruned_task_that_ran_under_a_chosen_id_does_not_run_again(queue, store, clock):
    await brought_to(queue, "completed", task_id="mine")
    await store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    await queue.submit("greet", task_id="mine")
    assert await claim(store, 10) == []
