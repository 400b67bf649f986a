"""Each shard has its own clock, and what happens to a task goes by the clock of its own shard alone."""

from datetime import timedelta

import pytest
from shard_steps import in_memory, text_in, work_off

from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing import FakeClock
from tenure.testing.conformance.steps import LEASE, claim, claim_one, read

HOUR = timedelta(hours=1)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
async def queue(clock, request):
    """Two shards, the second with a clock that is an hour off."""
    other = FakeClock(clock() + request.param)
    queue = await in_memory(2, clock, other)
    queue.clocks = [clock, other]
    return queue


@pytest.fixture(params=[0, 1])
def shard(request):
    return request.param


def words(queue, shard):
    return {"task_id": text_in(queue.store, shard, "id")}


async def test_a_submit_is_stamped_by_the_shard_that_keeps_it(queue, shard):
    now = queue.clocks[shard]()
    task = await queue.submit("greet", **words(queue, shard), delay=5, ttl=60)
    assert (task.created_at, task.available_at, task.expires_at) == (now, now + 5 * SECOND, now + 60 * SECOND)
    (batched,) = await queue.submit_many([("greet", 1)], ordering_key=text_in(queue.store, shard))
    assert batched.created_at == batched.history[0].at == now


SECOND = timedelta(seconds=1)


async def test_what_is_submitted_now_is_due_now(queue):
    await queue.submit_many([("greet", number) for number in range(20)])
    assert sum((await work_off(queue)).values()) == 20


async def test_a_delay_is_counted_by_the_shard(queue, shard):
    task = await queue.submit("greet", **words(queue, shard), delay=10)
    queue.clocks[shard].set(task.available_at - timedelta(microseconds=1))
    assert await claim(queue.store, 5) == []
    queue.clocks[shard].set(task.available_at)
    assert (await claim_one(queue.store)).id == task.id


async def test_a_lease_lapses_by_the_clock_of_the_shard_alone(queue, shard):
    await queue.submit("greet", **words(queue, shard))
    held = await claim_one(queue.store)
    queue.clocks[1 - shard].advance(HOUR * 5)
    assert await Sweeper(queue.store).sweep() == []
    queue.clocks[shard].advance(LEASE)
    (swept,) = await Sweeper(queue.store).sweep()
    assert (swept.id, swept.history[-1].what, swept.failed_at) == (held.id, "lapsed", queue.clocks[shard]())


async def test_a_deadline_passes_by_the_clock_of_the_shard_alone(queue, shard):
    task = await queue.submit("greet", **words(queue, shard), ttl=60)
    queue.clocks[1 - shard].advance(HOUR * 5)
    assert await Sweeper(queue.store).sweep() == []
    queue.clocks[shard].set(task.expires_at)
    (expired,) = await Sweeper(queue.store).sweep()
    assert expired.expired_at == task.expires_at


async def test_operators_and_workers_stamp_by_the_shard(queue, shard):
    task = await queue.submit("greet", **words(queue, shard))
    assert (await queue.cancel(task.id)).cancelled_at == queue.clocks[shard]()
    assert (await queue.retry(task.id)).available_at == queue.clocks[shard]()
    await work_off(queue)
    done = await read(queue.store, task.id)
    assert (done.status, done.completed_at) == (TaskStatus.Completed, queue.clocks[shard]())


async def test_retention_goes_by_the_clock_of_the_shard(queue, shard):
    task = await queue.submit("greet", **words(queue, shard))
    await queue.cancel(task.id)
    queue.clocks[1 - shard].advance(timedelta(days=8))
    assert await Sweeper(queue.store).prune() == 0
    queue.clocks[shard].advance(timedelta(days=7))
    assert await Sweeper(queue.store).prune() == 1
