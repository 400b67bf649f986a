"""The server is killed while producers and workers use it: what was acknowledged is there, and nothing is done twice."""

import asyncio

import pytest

from tenure.errors import StoreUnavailable
from tenure.queue import Queue
from tenure.stores.dynamodb import DynamoStore
from tenure.task import TaskStatus
from tenure.testing.aws import Dynoxide
from tenure.testing.checker import check
from tenure.testing.clock import FakeClock
from tenure.testing.conformance.steps import claim, complete, everything


@pytest.fixture
def server(aws_credentials):
    with Dynoxide(durable=True) as server:
        yield server


async def insist(call):
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.01)


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_again_and_again(server):
    clock = FakeClock()
    url = f"dynamodb://tasks?endpoint={server.endpoint}&create=true"
    store = DynamoStore(url, clock)
    await store.open()
    queue = Queue(store)
    acknowledged, completed, stop = [], [], asyncio.Event()

    async def produce(name):
        number = 0
        while not stop.is_set():
            number += 1
            options = {"idempotency_key": f"{name}-{number}", "ordering_key": f"k{number % 3}" if number % 2 else None}
            task = await insist(lambda n=number, o=options: queue.submit("greet", n, **o))
            acknowledged.append(task.id)

    async def work(name):
        while not stop.is_set():
            for held in await insist(lambda: claim(store, 3, by=name)):
                done = await insist(lambda held=held: complete(store, held))
                completed.append(done.id)

    running = [asyncio.ensure_future(each) for each in (produce("a"), produce("b"), work("w1"), work("w2"))]
    for round_ in range(1, 5):
        while len(acknowledged) < round_ * 20:
            await asyncio.sleep(0.005)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
    stop.set()
    await asyncio.gather(*running)
    clock.advance(60)
    while held := await claim(store, 25):
        completed += [(await complete(store, each)).id for each in held]
    tasks = await everything(store, page=1000)
    assert check(tasks, acknowledged, all_ended=True) == []
    assert len(set(acknowledged)) == len(acknowledged)
    assert sorted(completed) == sorted(task.id for task in tasks)
    counts = {count.status: count.count for count in await store.count()}
    assert counts == {TaskStatus.Completed: len(tasks)}
    await store.close()
