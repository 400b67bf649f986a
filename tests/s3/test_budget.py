"""What a task costs in requests. The requests of a worker's signs of life are counted apart."""

import asyncio
import time

import pytest

from tenure import ids as ids_of_tasks
from tenure import lifecycle
from tenure.payload import NULL
from tenure.queue import Queue
from tenure.stores.base import Change
from tenure.stores.s3 import packing
from tenure.stores.s3.names import is_later
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import in_parallel
from tenure.submission import build
from tenure.sweeper import Sweeper
from tenure.testing.conformance.steps import claim, complete, ids
from tenure.testing.s3 import prepare
from tenure.worker import Worker

KINDS = ("PUT", "GET", "DELETE", "LIST")


def requests(store):
    return {kind: store.client.counts[kind] for kind in KINDS}


def worker_on(store, **options):
    worker = Worker(Queue(store), **options)

    @worker.task("greet")
    async def greet(input):
        return None

    return worker


@pytest.mark.parametrize("options", [{}, {"delay": 3600}, {"priority": 7}, {"ttl": 60}], ids=str)
async def test_a_lone_task_costs_three_writes_and_one_read(open_store, clock, options):
    producer, consumer = await open_store(), await open_store()
    await Queue(producer).submit("greet", **options)
    clock.advance(options.get("delay", 0))
    (held,) = await claim(consumer)
    done = await complete(consumer, held)
    assert done.status == "completed"
    # The helper of the tests reads before it ends a task; a worker holds it already.
    both = {kind: producer.client.counts[kind] + consumer.client.counts[kind] for kind in KINDS}
    assert both == {"PUT": 3, "GET": 2, "DELETE": 0, "LIST": 1}


async def test_a_lone_task_and_its_worker_stay_within_the_budget(open_store):
    producer, consumer = await open_store(None), await open_store(None)
    await Queue(producer).submit("greet")
    assert requests(producer) == {"PUT": 1, "GET": 0, "DELETE": 0, "LIST": 0}
    await worker_on(consumer).run(until_idle=True)
    spent = requests(consumer)
    assert (spent["PUT"], spent["GET"], spent["DELETE"]) == (2, 1, 0)


async def test_a_key_costs_one_write_more(queue, store):
    await queue.submit("greet", idempotency_key="k")
    assert requests(store) == {"PUT": 2, "GET": 0, "DELETE": 0, "LIST": 0}


async def test_tidying_costs_one_delete_for_a_lone_task_and_next_to_nothing_else(queue, store):
    for number in range(packing.MANY_SEGMENTS):
        await queue.submit("greet", number)
    held = await claim(store, packing.MANY_SEGMENTS)
    store.client.counts.clear()
    await store.swap([_done(task) for task in held])
    while store._tidying:
        await asyncio.wait(store._tidying)
    many = packing.MANY_SEGMENTS
    spent = requests(store)
    assert spent["DELETE"] == many
    assert spent["PUT"] - many <= 3
    assert spent["GET"] <= 2
    assert spent["LIST"] <= 2


def _done(task):
    return Change(task, lifecycle.complete(task, task.fence, NULL, task.started_at))


async def test_a_batch_of_a_thousand_costs_a_twentieth_of_a_request_each(open_store):
    producer, consumer = await open_store(None), await open_store(None)
    for _ in range(3):
        await Queue(producer).submit_many([("greet", number) for number in range(1000)])
    await worker_on(consumer, concurrency=200).run(until_idle=True)
    while consumer._tidying:
        await asyncio.wait(consumer._tidying)
    spent = sum(requests(producer).values()) + sum(requests(consumer).values())
    assert spent / 3000 <= 0.05, (requests(producer), requests(consumer))
    assert {lane.status: lane.count for lane in await consumer.count()} == {"completed": 3000}


@pytest.mark.parametrize("shards", [1, 16])
async def test_a_poll_is_one_listing_for_each_shard(open_store, seaweedfs, shards, request):
    store = await open_store(url=prepare(seaweedfs, "tests", f"poll-{request.node.callspec.id}-{id(request)}", shards))
    await Queue(store).submit_many([("other", number) for number in range(50)])
    store.client.counts.clear()
    for _ in range(5):
        assert await claim(store) == []
    assert requests(store) == {"PUT": 0, "GET": 0, "DELETE": 0, "LIST": 5 * shards}


async def test_an_idle_worker_lists_twelve_times_a_minute_at_most(open_store, monkeypatch):
    """The worker's own loop, on a clock that runs as fast as it is asked."""
    store = await open_store(None)
    minutes = 10
    clock = _Hours(store, monkeypatch)
    worker = worker_on(store)
    running = asyncio.ensure_future(worker.run())
    await clock.until(120)
    store.client.counts.clear()
    await clock.until(120 + minutes * 60)
    worker.stop()
    await running
    assert requests(store)["LIST"] <= 12 * minutes
    assert requests(store)["PUT"] == 0
    assert requests(store)["GET"] == 0


class _Hours:
    """Lets a sleeping event loop find that its time has come, instead of waiting for it."""

    def __init__(self, store, monkeypatch):
        self._loop = asyncio.get_running_loop()
        self._ahead, self._real = 0.0, time.monotonic
        self._start = self._real()
        monkeypatch.setattr(time, "monotonic", self._now)
        monkeypatch.setattr(self._loop, "time", self._now)
        monkeypatch.setattr(store._poll, "_monotonic", self._now)

    def _now(self):
        return self._real() + self._ahead

    async def until(self, seconds):
        while self._now() - self._start < seconds:
            # Everything that can go on without time passing goes on first.
            await asyncio.to_thread(lambda: None)
            self._ahead += 0.25


async def test_a_task_of_a_batch_is_found_by_its_id_with_one_request(open_store, monkeypatch):
    monkeypatch.setattr(ids_of_tasks, "_series", ids_of_tasks._Series())
    tasks = await Queue(await open_store()).submit_many([("greet", number) for number in range(100)])
    stranger = await open_store()
    assert (await stranger.get([tasks[57].id])) == [tasks[57]]
    assert requests(stranger) == {"PUT": 0, "GET": 1, "DELETE": 0, "LIST": 0}


async def test_ten_thousand_tasks_that_back_off_for_long_leave_the_front(queue, store, clock):
    for _ in range(10):
        await queue.submit_many([("greet", number) for number in range(1000)])
    held = await claim(store, 10_000)
    assert len(held) == 10_000
    await store.swap([_backing_off(task) for task in held])
    mine = await queue.submit("greet")
    stranger_sees = [listed.name for listed in await store.bucket.names("tasks/")]
    assert [is_later(name) for name in stranger_sees] == [False] + [True] * 10
    store.client.counts.clear()
    assert ids(await claim(store, 10)) == [mine.id]
    assert requests(store) == {"PUT": 1, "GET": 0, "DELETE": 0, "LIST": 1}


async def test_three_pages_of_lone_tasks_that_wait_cost_a_poll_nothing(open_store, clock):
    store, stranger = await open_store(), await open_store()
    later = [build("greet", None, {"delay": 3600 + number}, clock(), 1000).task for number in range(3000)]
    names = [store._known.placing.names_of([task], clock())[0] for task in later]
    segments = [
        Segment(name, "", {task.id: Entry(number, task)})
        for number, (name, task) in enumerate(zip(names, later, strict=True))
    ]
    await in_parallel(store.writer.create, segments)
    mine = await Queue(store).submit("greet", priority=-100)
    stranger.client.counts.clear()
    (held,) = await claim(stranger, 10)
    assert held.id == mine.id
    assert await claim(stranger, 10) == []
    assert requests(stranger) == {"PUT": 1, "GET": 1, "DELETE": 0, "LIST": 2}
    await complete(stranger, held)
    stranger.client.counts.clear()
    assert await stranger.overdue(clock(), 10) == []
    assert requests(stranger)["LIST"] == 1
    clock.advance(3600)
    assert ids(await claim(stranger, 10)) == [later[0].id]


async def test_retention_reads_each_record_of_a_key_once(open_store):
    store, stranger = await open_store(), await open_store()
    for number in range(7):
        await Queue(store).submit("greet", idempotency_key=f"k{number}")
    sweeper = Sweeper(stranger)
    await sweeper.prune()
    stranger.client.counts.clear()
    await sweeper.prune()
    assert requests(stranger) == {"PUT": 0, "GET": 0, "DELETE": 0, "LIST": 4}
    await Queue(store).submit("greet", idempotency_key="one more")
    stranger.client.counts.clear()
    await sweeper.prune()
    # Its record, and the segment with its task.
    assert requests(stranger) == {"PUT": 0, "GET": 2, "DELETE": 0, "LIST": 4}


def _backing_off(task):
    return Change(task, lifecycle.reschedule(task, task.fence, task.started_at, 3600))
