"""A listing may show what this process has written before the answer to that write is back: it is not read again."""

import asyncio

import pytest
from lines import overtaken_at

from tenure import lifecycle
from tenure.queue import Queue
from tenure.stores.base import Change
from tenure.testing.conformance.steps import claim, complete, everything
from tenure.worker import Worker


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A slow machine does not make a reader give up waiting."""
    monkeypatch.setattr("tenure.stores.s3.writer.PATIENCE", 60.0)


def reads(store):
    return store.client.counts["GET"]


async def test_an_ending_that_a_worker_writes_is_not_read_again(open_store):
    producer, consumer = await open_store(None), await open_store(None)
    await Queue(producer).submit("greet")
    line = overtaken_at(consumer, 2)
    worker = Worker(Queue(consumer))

    @worker.task("greet")
    async def greet(input):
        return None

    await worker.run(until_idle=True)
    assert line.listed.is_set()
    assert consumer.client.counts["PUT"] == 2
    assert reads(consumer) == 1


async def test_a_task_that_is_submitted_beside_a_claim_is_claimed_without_reading_it(store):
    line = overtaken_at(store, 1)
    submitting = asyncio.ensure_future(Queue(store).submit("greet"))
    (held,) = await claim(store)
    assert line.listed.is_set()
    assert held.id == (await submitting).id
    assert reads(store) == 0


async def test_what_another_has_written_since_is_read(open_store, clock):
    """The own answer comes last, and yet it is not the last word."""
    one, other = await open_store(), await open_store()
    first, second = await Queue(one).submit_many([("greet", 1), ("greet", 2)])
    line = overtaken_at(one, 1)
    swapping = asyncio.ensure_future(one.swap([Change(first, lifecycle.cancel(first, clock(), by="one"))]))
    await line.written.wait()
    await Queue(other).cancel(second.id, by="other")
    found = {task.id: task for task in await everything(one)}
    assert await swapping == [True]
    assert (found[first.id].cancelled_by, found[second.id].cancelled_by) == ("one", "other")


async def test_an_answer_that_does_not_come_holds_up_no_reader_for_long(open_store, monkeypatch):
    monkeypatch.setattr("tenure.stores.s3.writer.PATIENCE", 0.0)
    store, stranger = await open_store(), await open_store()
    line = overtaken_at(store, 1)
    line.free.clear()
    submitting = asyncio.ensure_future(Queue(store).submit("greet"))
    (held,) = await claim(store)
    assert not submitting.done()
    line.free.set()
    assert held.id == (await submitting).id
    assert [task.id for task in await everything(stranger)] == [held.id]


async def test_what_this_process_has_deleted_is_not_looked_for(queue, store):
    await queue.submit("greet")
    early = await store._shelves.front(0)
    (held,) = await claim(store)
    await complete(store, held)
    late = await store._shelves.front(0)
    await store._packing.tidy(0)
    store.client.counts.clear()
    for front in (early, late):
        assert len(front.listed) == 1
        assert await store._shelves.read(front.listed) == []
    assert reads(store) == 0
