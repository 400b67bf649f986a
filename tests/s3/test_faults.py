"""Requests and answers that get lost, late or cut: nothing is lost, nothing is doubled."""

import asyncio
import random
from collections import Counter

import pytest
from lines import trouble

from tenure import lifecycle
from tenure.errors import LeaseLost, PartlySubmitted, StoreUnavailable
from tenure.payload import NULL
from tenure.queue import Queue
from tenure.stores.aws.transport import AnswerLost
from tenure.stores.base import Change
from tenure.testing.aws import Fault
from tenure.testing.checker import check
from tenure.testing.conformance.steps import LEASE, claim, complete, everything, ids

OPERATIONS = ("PUT", "GET", "LIST", "DELETE")


def once(operation, fault):
    """The first request of this kind goes wrong."""
    left = [operation]

    def plan(name, _):
        if name in left:
            left.remove(name)
            return fault
        return None

    return plan


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_one_fault_anywhere_in_the_life_of_a_task_changes_nothing(open_store, operation, fault):
    store = await open_store()
    queue = Queue(store)
    line = trouble(store, once(operation, fault))
    task = await queue.submit("greet", 1, idempotency_key="k")
    (held,) = await claim(store, 10)
    await complete(store, held)
    await store._packing.tidy(0)
    assert line.happened == [(operation, fault)]
    other = await open_store()
    (stored,) = await everything(other)
    assert (stored.id, stored.status, stored.version) == (task.id, "completed", 3)
    assert (await Queue(other).submit("greet", 1, idempotency_key="k")).created is False


@pytest.mark.parametrize("fault", [Fault.LostAfterEffect, Fault.ServerErrorAfterEffect])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_write_whose_answer_was_lost_is_recognised_as_ones_own(open_store, fault, number):
    """Submit, claim, end: each is written once, and its answer says so."""
    store = await open_store()
    writes = iter(range(1, 100))

    def plan(operation, _):
        return fault if operation == "PUT" and next(writes) == number else None

    line = trouble(store, plan)
    task = await Queue(store).submit("greet")
    assert task.created
    (held,) = await claim(store)
    change = Change(held, lifecycle.complete(held, held.fence, NULL, held.started_at))
    assert await store.swap([change]) == [True]
    assert len(line.happened) == 1
    assert [event.what for event in (await everything(await open_store()))[0].history] == [
        "created",
        "claimed",
        "completed",
    ]


async def test_a_write_that_took_effect_and_was_changed_by_another_is_recognised_too(open_store, clock):
    one, other = await open_store(), await open_store()
    first, second = await Queue(one).submit_many([("greet", 1), ("greet", 2)])
    overtaken = asyncio.Event()

    class Line:
        """The answer is lost, and before it is asked for again another has written."""

        def __init__(self, inner):
            self.inner, self.armed = inner, True

        async def exchange(self, operation, *rest):
            reply = await self.inner.exchange(operation, *rest)
            if operation == "PUT" and self.armed:
                self.armed = False
                await Queue(other).cancel(second.id, by="other")
                overtaken.set()
                raise AnswerLost("planned")
            return reply

        async def close(self):
            await self.inner.close()

    one.client.transport = Line(one.client.transport)
    change = Change(first, lifecycle.cancel(first, clock(), by="one"))
    assert await one.swap([change]) == [True]
    assert overtaken.is_set()
    stored = {task.id: task for task in await everything(await open_store())}
    assert (stored[first.id].cancelled_by, stored[second.id].cancelled_by) == ("one", "other")
    assert stored[first.id].version == 2


@pytest.mark.parametrize("seed", range(3))
async def test_workers_and_producers_on_a_bad_line_keep_every_promise(open_store, clock, seed):
    dice = random.Random(seed)
    faults = [*Fault]

    def plan(*_):
        return dice.choice(faults) if dice.random() < 0.15 else None

    stores = [await open_store() for _ in range(4)]
    lines = [trouble(store, plan) for store in stores]
    acknowledged, done = [], Counter()

    async def produce(number):
        queue = Queue(stores[number])
        for each in range(8):
            task = await insist(lambda e=each: queue.submit("greet", e, idempotency_key=f"{number}-{e}"))
            acknowledged.append(task.id)
        batch = [("greet", each, {"idempotency_key": f"batch-{number}-{each}"}) for each in range(10)]
        acknowledged.extend(ids(await insist(lambda: queue.submit_many(batch))))

    async def work(number):
        store = stores[number]
        while len(done) < 36:
            for held in await insist(lambda: claim(store, 4, by=f"w{number}")):
                if await insist(lambda h=held: complete(store, h)) is not None:
                    done[held.id] += 1
            clock.advance(5)

    async with asyncio.timeout(200):
        await asyncio.gather(produce(0), produce(1), work(2), work(3))
    assert sum(len(line.happened) for line in lines) > 20
    stored = await everything(await open_store(), page=1000)
    assert check(stored, acknowledged, all_ended=True) == []


async def insist(call):
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0)
        except LeaseLost:
            return None


async def test_a_store_that_stays_away_is_told_and_comes_back(open_store):
    store = await open_store()
    queue = Queue(store)
    away = True
    trouble(store, lambda *_: Fault.NotSent if away else None)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await queue.submit("greet")
    away = False
    task = await queue.submit("greet")
    assert ids(await claim(store, 10)) == [task.id]


async def test_a_batch_that_was_written_in_part_says_exactly_what_was_created(open_store):
    store = await open_store()
    writes = iter(range(1, 100))
    trouble(store, lambda operation, _: Fault.NotSent if operation == "PUT" and next(writes) > 1 else None)
    batch = [("greet", number, {"priority": number}) for number in range(4)]
    with pytest.raises(PartlySubmitted) as partly:
        await Queue(store).submit_many(batch)
    assert ids(await everything(await open_store())) == ids(partly.value.created)
    assert len(partly.value.created) == 1


async def test_a_lease_counts_from_the_write_that_takes_its_task_however_long_the_search_took(open_store, clock):
    await Queue(await open_store()).submit("greet")
    store = await open_store()
    line = trouble(store, lambda *_: None)
    line.plan = lambda *_: clock.advance(LEASE / 2)
    (held,) = await claim(store)
    assert held.lease_expires_at - clock() == LEASE / 2
