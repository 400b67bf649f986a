"""While tasks keep coming, listings are some time apart, so that each finds several; nobody else waits."""

import asyncio
import time

import pytest

from tenure import lifecycle
from tenure.payload import NULL
from tenure.queue import Queue
from tenure.stores.base import Change
from tenure.stores.s3 import claiming
from tenure.testing.conformance.steps import claim

LONG = 3600.0


@pytest.fixture
def _long(monkeypatch):
    """Whoever waits at all waits for longer than a test may take."""
    monkeypatch.setattr(claiming, "GATHER", LONG)


async def test_a_claim_that_took_several_and_wanted_more_is_followed_by_a_pause(queue, store, monkeypatch):
    monkeypatch.setattr(claiming, "GATHER", 0.2)
    await queue.submit("greet", 1)
    await queue.submit("greet", 2)
    begun = time.monotonic()
    assert len(await claim(store, 10)) == 2
    late = await queue.submit("greet", 3)
    (held,) = await claim(store, 10)
    assert held.id == late.id
    assert time.monotonic() - begun >= 0.2


@pytest.mark.usefixtures("_long")
async def test_a_task_that_comes_alone_is_followed_by_no_pause(queue, store):
    for number in range(3):
        await queue.submit("greet", number)
        assert len(await claim(store, 10)) == 1


@pytest.mark.usefixtures("_long")
async def test_a_claim_that_had_enough_or_found_nothing_is_followed_by_no_pause(queue, store):
    await queue.submit_many([("greet", number) for number in range(4)])
    for _ in range(2):
        assert len(await claim(store, 2)) == 2
    for _ in range(3):
        assert await claim(store, 2) == []


@pytest.mark.usefixtures("_long")
async def test_the_next_task_of_an_ordering_key_does_not_wait(queue, store):
    for number in range(4):
        await queue.submit("greet", number, ordering_key=f"key {number % 2}")
    held = await claim(store, 10)
    assert sorted(task.input for task in held) == [0, 1]
    following = asyncio.ensure_future(claim(store, 10))
    await store.swap([Change(task, lifecycle.complete(task, task.fence, NULL, task.started_at)) for task in held])
    assert sorted(task.input for task in await following) == [2, 3]


async def test_what_comes_while_a_listing_is_on_its_way_is_claimed_with_it(open_store, clock):
    store, other = await open_store(), await open_store()

    class Line:
        def __init__(self, inner):
            self.inner = inner

        async def exchange(self, operation, *rest):
            if operation == "LIST":
                clock.advance(1)
                await Queue(other).submit("greet")
            return await self.inner.exchange(operation, *rest)

        async def close(self):
            await self.inner.close()

    store.client.transport = Line(store.client.transport)
    assert len(await claim(store, 10)) == 1
    assert store.client.counts["LIST"] == 1
