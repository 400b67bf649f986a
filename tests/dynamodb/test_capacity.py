"""What a task costs: units of capacity by kind, as the server counts them. docs/stores/dynamodb.md shows these figures."""

import re
from pathlib import Path

import pytest

from tenure import lifecycle, payload
from tenure.lifecycle import Failure
from tenure.queue import Queue
from tenure.retry import RetryPolicy
from tenure.stores.base import Change
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import SECOND, claim, claim_one, complete, renew

PAGE = Path(__file__).parents[2] / "docs/stores/dynamodb.md"
DOLLARS_PER_MILLION_WRITES, DOLLARS_PER_MILLION_READS = 0.625, 0.125
WRITES = ("TransactWriteItems", "UpdateItem", "PutItem", "DeleteItem")
READS = ("Query", "BatchGetItem")


@pytest.fixture(params=["dynoxide"])
def server(request):
    """The one that counts as the documentation of DynamoDB says."""
    return request.getfixturevalue(request.param)


class Meter:
    def __init__(self, store):
        self.store = store
        self.reset()

    def reset(self):
        self.store.table.units.clear()
        self.store.client.counts.clear()

    def read(self, per=1):
        """Write units and read units per task since the last look."""
        units = self.store.table.units
        found = tuple(round(sum(units[name] for name in names) / per, 2) for names in (WRITES, READS))
        self.reset()
        return found


@pytest.fixture
async def meter(store, queue):
    await queue.submit("warm", "the lane is written down")
    await complete(store, await claim_one(store, types=["warm"]))
    await queue.submit("greet", "the lane is written down")
    await complete(store, await claim_one(store))
    return Meter(store)


async def end(store, tasks, now):
    """Complete tasks as a worker does, which holds them from their claim."""
    done = [lifecycle.complete(task, task.fence, payload.to_json({"ok": True}), now) for task in tasks]
    assert all(await store.swap([Change(*pair) for pair in zip(tasks, done, strict=True)]))


async def lone(store, queue, meter, clock):
    figures = {}
    await queue.submit("greet", {"user_id": 42})
    figures["submit"] = meter.read()
    held = await claim_one(store)
    figures["claim"] = meter.read()
    await end(store, [held], clock())
    figures["complete"] = meter.read()
    await queue.submit("greet", {"user_id": 42}, idempotency_key="order-7")
    figures["submit with a key"] = meter.read()
    held = await claim_one(store)
    clock.advance(10)
    meter.reset()
    await renew(store, held)
    figures["renewal"] = meter.read()
    await store.swap([Change(held, lifecycle.fail(held, held.fence, Failure("boom"), RetryPolicy(), clock(), 0.5))])
    figures["failure and retry later"] = meter.read()
    await queue.submit("greet", {"user_id": 42}, ordering_key="user-42")
    figures["submit with an ordering key"] = meter.read()
    clock.advance(10)
    (held,) = [task for task in await claim(store, 5) if task.ordering_key]
    meter.reset()
    await end(store, [held], clock())
    figures["complete with an ordering key"] = meter.read()
    await claim(store)
    figures["poll that finds nothing"] = meter.read()
    await store.count()
    figures["count"] = meter.read()
    return figures


async def batched(store, queue, meter, clock):
    figures = {}
    await queue.submit_many([("greet", {"user_id": 42})] * 100)
    figures["submit, 100 at once"] = meter.read(100)
    held = await claim(store, 25)
    figures["claim, 25 at once"] = meter.read(25)
    await store.swap(
        [Change(task, lifecycle.complete(task, 1, payload.to_json({"ok": True}), clock())) for task in held]
    )
    figures["complete, 25 at once"] = meter.read(25)
    clock.advance(8 * 86_400)
    meter.reset()
    pruned = await store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    figures["prune"] = meter.read(pruned)
    return figures


def in_the_page():
    rows = re.findall(r"^\| ([a-z][^|]*?) \| ([0-9.]+) \| ([0-9.]+) \| \$([0-9.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (float(writes), float(reads), float(dollars)) for name, writes, reads, dollars in rows}


async def test_what_a_task_costs_is_what_the_page_says(store, queue, meter, clock):
    figures = await lone(store, queue, meter, clock) | await batched(store, queue, meter, clock)
    told = {
        name: (writes, reads, round(writes * DOLLARS_PER_MILLION_WRITES + reads * DOLLARS_PER_MILLION_READS, 2))
        for name, (writes, reads) in figures.items()
    }
    assert in_the_page() == told, "\n".join(f"| {n} | {w:g} | {r:g} | ${d:.2f} |" for n, (w, r, d) in told.items())


async def test_an_idle_worker_makes_few_requests(store, meter):
    await claim(store)
    assert sum(store.client.counts.values()) == 5


async def test_counting_what_will_be_late_costs_the_same_beside_any_number_that_is_late_already(
    store, queue, meter, clock
):
    async def cost():
        meter.reset()
        assert await store.count_overdue(clock() + 60 * SECOND, 10, TaskStatus.Pending, clock()) == {"greet": 1}
        return meter.read()

    await queue.submit("greet", ttl=60)
    alone = await cost()
    for _ in range(5):
        await queue.submit_many([("greet", None)] * 90, ttl=1)
    clock.advance(1)
    assert await cost() == alone


async def test_counting_costs_the_same_however_many_there_are(store, meter):
    queue = Queue(store)
    await store.count()
    before = meter.read()
    for _ in range(5):
        await queue.submit_many([("greet", None)] * 90)
    meter.reset()
    await store.count()
    assert meter.read() == before
