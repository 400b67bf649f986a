"""Many workers at once: each task runs once, everyone goes on, and no shard is left behind."""

import asyncio
import itertools
from collections import Counter

import pytest

from tenure.queue import Queue
from tenure.stores.s3 import S3Store
from tenure.stores.s3.names import shard_of
from tenure.testing.checker import check
from tenure.testing.conformance.steps import claim, complete, everything, ids
from tenure.testing.s3 import prepare

WORKERS = 20
numbers = itertools.count()


@pytest.fixture(params=[1, 16], ids=["one shard", "16 shards"])
async def stores(request, seaweedfs, clock):
    """Twenty processes' worth of handles."""
    url = prepare(seaweedfs, "tests", f"crowd-{next(numbers)}", request.param)
    opened = [S3Store(url, clock) for _ in range(WORKERS)]
    yield opened
    for each in opened:
        await each.close()


async def drain(stores, total, count):
    done = Counter()

    async def work(number):
        store = stores[number]
        while done.total() < total:
            for held in await claim(store, count, by=f"w{number}"):
                await complete(store, held)
                done[held.id] += 1

    async with asyncio.timeout(240):
        await asyncio.gather(*(work(number) for number in range(WORKERS)))
    return done


async def test_twenty_workers_drain_lone_tasks_once_each(stores):
    queue = Queue(stores[0])
    tasks = [await queue.submit("greet", number) for number in range(40)]
    done = await drain(stores, 40, 2)
    assert done == Counter(ids(tasks))
    assert check(await everything(stores[1], page=1000), ids(tasks), all_ended=True) == []


async def test_twenty_workers_drain_one_batch_once_each(stores):
    tasks = await Queue(stores[0]).submit_many([("greet", number) for number in range(60)])
    done = await drain(stores, 60, 10)
    assert done == Counter(ids(tasks))
    assert check(await everything(stores[1], page=1000), ids(tasks), all_ended=True) == []


async def test_twenty_producers_of_one_ordering_key_lose_nothing(stores):
    queues = [Queue(store) for store in stores]
    tasks = await asyncio.gather(
        *(queues[number % WORKERS].submit("greet", number, ordering_key="k") for number in range(60))
    )
    stored = await everything(stores[3], page=1000)
    assert sorted(ids(stored)) == sorted(ids(tasks))
    assert len(await claim(stores[5], 100)) == 1


async def test_claims_begin_at_each_shard_in_turn(seaweedfs, clock):
    store = S3Store(prepare(seaweedfs, "tests", f"turns-{next(numbers)}", 4), clock)
    queue = Queue(store)
    while len({shard_of(listed.name) for listed in await store.bucket.names("tasks/")}) < 4:
        await queue.submit("greet")
    for _ in range(10):
        await queue.submit_many([("greet", number) for number in range(20)])
    first = []
    for _ in range(4):
        (held,) = await claim(store)
        first.append(shard_of((await store._places.find([held.id]))[held.id][0]))
    assert sorted(first) == [0, 1, 2, 3]
    await store.close()


async def test_a_crowd_of_writers_of_one_segment_all_get_through(stores):
    """Conflicts back off at random, so that nobody starves."""
    tasks = await Queue(stores[0]).submit_many([("greet", number) for number in range(WORKERS)])
    answers = await asyncio.gather(*(Queue(store).cancel(task.id) for store, task in zip(stores, tasks, strict=True)))
    assert {task.status for task in answers} == {"cancelled"}
    assert sum(store.writer.conflicts for store in stores) > 0
    assert {task.status for task in await everything(stores[0], page=100)} == {"cancelled"}
