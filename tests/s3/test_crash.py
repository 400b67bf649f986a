"""A server that is killed in the middle of everything: what was acknowledged is still there."""

import asyncio

from tenure.errors import StoreUnavailable
from tenure.queue import Queue
from tenure.stores.s3 import S3Store
from tenure.testing.checker import check
from tenure.testing.conformance.steps import claim, complete, everything
from tenure.testing.s3 import SeaweedFS, prepare


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_and_comes_back(aws_credentials, clock):
    with SeaweedFS() as server:
        url = prepare(server, "tests", "crash")
        stores = [S3Store(url, clock) for _ in range(3)]
        for store in stores:
            store.client.pauses = (0.01, 0.1)
        acknowledged, completed = [], []
        killed = asyncio.Event()

        async def produce(number):
            queue = Queue(stores[number])
            for each in range(40):
                try:
                    acknowledged.append((await queue.submit("greet", each, idempotency_key=f"{number}-{each}")).id)
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
                if len(acknowledged) == 20:
                    killed.set()

        async def work():
            while len(completed) < 30:
                try:
                    for held in await claim(stores[2], 5):
                        await complete(stores[2], held)
                        completed.append(held.id)
                except StoreUnavailable:
                    await asyncio.sleep(0.01)

        async def kill():
            await killed.wait()
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)

        async with asyncio.timeout(120):
            await asyncio.gather(produce(0), produce(1), work(), kill())
        stored = await everything(stores[0], page=1000)
        assert check(stored, acknowledged) == []
        ended = {task.id for task in stored if task.status == "completed"}
        assert set(completed) <= ended
        for store in stores:
            await store.close()
