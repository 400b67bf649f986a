"""Rule 39: tasks with one ordering key run one at a time, in submit order."""

import asyncio

import pytest

from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.checker import check
from tenure.testing.conformance.steps import (
    LATE,
    LEASE,
    ask,
    claim,
    claim_one,
    complete,
    everything,
    fail,
    ids,
    read,
    release,
    reschedule,
)
from tenure.testing.faults import FaultyStore


async def chain(queue, key="k", length=3, **options):
    return await queue.submit_many([("greet", number) for number in range(length)], ordering_key=key, **options)


async def test_tasks_of_one_key_run_one_at_a_time_in_submit_order(queue, store):
    tasks = await chain(queue, length=4)
    for task in tasks:
        (held,) = await claim(store, 10)
        assert held.id == task.id
        assert await claim(store, 10, by="w2") == []
        await complete(store, held)
    assert await claim(store, 10) == []
    assert check(await everything(store), ids(tasks), all_ended=True) == []


async def test_keys_do_not_block_each_other(queue, store):
    one, other = await chain(queue, "one"), await chain(queue, "other")
    free = await queue.submit("greet")
    assert ids(await claim(store, 10)) == [one[0].id, other[0].id, free.id]


async def test_priority_and_due_time_do_not_break_the_order_of_a_key(queue, store, clock):
    later = await queue.submit("greet", ordering_key="k", delay=10)
    urgent = await queue.submit("greet", ordering_key="k", priority=100)
    assert await claim(store, 10) == []
    assert (await ask(store, 10)).next_due == later.available_at
    clock.advance(10)
    held = await claim_one(store)
    assert held.id == later.id
    await complete(store, held)
    assert ids(await claim(store, 10)) == [urgent.id]


async def test_the_order_of_a_key_holds_across_types_and_queues(queue, store):
    first = await queue.submit("greet", ordering_key="k", queue="mail")
    second = await queue.submit("other", ordering_key="k")
    assert await claim(store, 10, types=["other"]) == []
    held = await claim_one(store, queues=["mail"])
    assert held.id == first.id
    await complete(store, held)
    assert ids(await claim(store, 10, types=["other"])) == [second.id]


async def test_a_retrying_head_blocks_its_followers_until_it_has_ended(queue, store, clock):
    first, second, _ = await chain(queue, max_attempts=2)
    await fail(store, await claim_one(store))
    assert await claim(store, 10) == []
    clock.advance(60)
    (held,) = await claim(store, 10)
    assert held.id == first.id
    await fail(store, held)
    assert (await read(store, first.id)).status is TaskStatus.Failed
    assert ids(await claim(store, 10)) == [second.id]


@pytest.mark.parametrize(
    "step", [release, lambda store, held: reschedule(store, held, 5)], ids=["given back", "rescheduled"]
)
async def test_a_head_that_comes_back_keeps_its_place(queue, store, clock, step):
    first, *_ = await chain(queue)
    await step(store, await claim_one(store))
    clock.advance(5)
    assert ids(await claim(store, 10)) == [first.id]


async def test_a_head_whose_worker_died_keeps_its_place(queue, store, clock):
    first, *_ = await chain(queue)
    await claim_one(store, by="victim")
    clock.advance(LEASE)
    assert ids(await claim(store, 10)) == [first.id]


async def test_a_dead_head_lets_the_next_go(queue, store):
    _, second, _ = await chain(queue)
    await fail(store, await claim_one(store), permanent=True)
    assert ids(await claim(store, 10)) == [second.id]


async def test_a_head_that_died_by_a_lapse_lets_the_next_go(queue, store, clock):
    first, second, _ = await chain(queue, max_attempts=1)
    await claim_one(store, by="victim")
    clock.advance(LEASE)
    assert ids(await claim(store, 10)) == [second.id]
    assert (await read(store, first.id)).status is TaskStatus.Failed


async def test_a_cancelled_head_lets_the_next_go(queue, store):
    first, second, _ = await chain(queue)
    await queue.cancel(first.id)
    assert ids(await claim(store, 10)) == [second.id]


@pytest.mark.parametrize("by", ["an operator", "the sweep", "a claim"])
async def test_an_expired_head_lets_the_next_go(queue, store, clock, by):
    head = await queue.submit("greet", ordering_key="k", ttl=10)
    follower = await queue.submit("greet", ordering_key="k")
    if by == "an operator":
        await queue.mark_expired(head.id)
    else:
        clock.advance(10)
    if by == "the sweep":
        await Sweeper(store).sweep()
    assert ids(await claim(store, 10)) == [follower.id]


async def test_a_follower_that_ends_early_changes_nothing_for_the_others(queue, store):
    first, second, third = await chain(queue)
    await queue.cancel(second.id)
    held = await claim_one(store)
    assert held.id == first.id
    assert await claim(store, 10) == []
    await complete(store, held)
    assert ids(await claim(store, 10)) == [third.id]


async def test_an_old_head_that_is_retried_waits_for_the_one_that_runs(queue, store):
    first, second, third = await chain(queue)
    await fail(store, await claim_one(store), permanent=True)
    running = await claim_one(store)
    assert running.id == second.id
    await queue.retry(first.id)
    assert await claim(store, 10) == []
    await complete(store, running)
    again = await claim_one(store)
    assert again.id == first.id
    assert await claim(store, 10) == []
    await complete(store, again)
    assert ids(await claim(store, 10)) == [third.id]


async def test_an_old_head_that_is_retried_goes_before_those_that_wait(queue, store):
    first, second, _ = await chain(queue)
    await queue.cancel(first.id)
    await queue.retry(first.id)
    held = await claim_one(store)
    assert held.id == first.id
    await complete(store, held)
    assert ids(await claim(store, 10)) == [second.id]


async def test_a_task_submitted_while_the_head_runs_waits_for_it(queue, store):
    await queue.submit("greet", ordering_key="k")
    held = await claim_one(store)
    late = await queue.submit("greet", ordering_key="k")
    assert await claim(store, 10) == []
    await complete(store, held)
    assert ids(await claim(store, 10)) == [late.id]


async def test_a_key_whose_tasks_have_all_ended_is_free(queue, store):
    await queue.submit("greet", ordering_key="k")
    await complete(store, await claim_one(store))
    again = await queue.submit("greet", ordering_key="k")
    assert ids(await claim(store, 10)) == [again.id]


async def test_a_thousand_followers_of_one_key_do_not_hide_others(queue, store):
    followers = await chain(queue, length=1001, priority=100)
    other = await queue.submit("greet", priority=-100)
    assert ids(await claim(store, 2)) == [followers[0].id, other.id]


async def test_tasks_of_many_keys_drained_by_many_workers_keep_their_order(open_store, queue, clock):
    stores = [FaultyStore(await open_store(clock), seed, LATE) for seed in range(3)]
    tasks = await queue.submit_many([("greet", number, {"ordering_key": f"k{number % 4}"}) for number in range(40)])
    begun = []

    async def work(number):
        store = stores[number % 3]
        while len(begun) < len(tasks):
            await asyncio.sleep(0)
            for held in await claim(store, 2, by=f"w{number}"):
                # Not after its end: an answer may be later than what the next one does.
                begun.append(held)
                await complete(store, held)

    await asyncio.gather(*(work(number) for number in range(6)))
    by_key = [[task.input for task in begun if task.ordering_key == f"k{key}"] for key in range(4)]
    assert all(numbers == sorted(numbers) and len(numbers) == 10 for numbers in by_key)
    assert check(await everything(stores[0]), ids(tasks), all_ended=True) == []


async def test_what_a_task_waits_for_can_be_asked(queue, store):
    first, second, third = await chain(queue)
    assert second.id in await queue.explain(third.id)
    assert first.id in await queue.explain(second.id)
    await claim_one(store)
    assert first.id in await queue.explain(second.id)
