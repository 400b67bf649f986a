"""Waiting for news: a write by anyone ends it, and so does the end of patience."""

import asyncio
import threading

import pytest

from tenure.queue import Queue
from tenure.testing.conformance.steps import brought_to, claim_one, complete

SOON = 20
"""Seconds within which a store must notice. Stores do it in milliseconds; this only tells "noticed" from "never"."""
LONG = 300


async def noticed(store, mark):
    """Wait with long patience; a store that does not notice fails the test by its timeout."""
    async with asyncio.timeout(SOON):
        await store.wait(mark, LONG)


async def submit(queue, _):
    await queue.submit("greet")


async def end(queue, held):
    await complete(queue.store, held)


async def pause(queue, _):
    await queue.pause("mail")


WRITES = [submit, end, pause]


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_from_another_handle_ends_the_wait(queue, open_store, clock, write):
    held = await brought_to(queue, "running")
    other = await open_store(clock)
    mark = other.mark()
    waiting = asyncio.ensure_future(noticed(other, mark))
    await asyncio.sleep(0)
    await write(queue, held)
    await waiting


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_through_the_same_handle_ends_the_wait(queue, store, write):
    held = await brought_to(queue, "running")
    mark = store.mark()
    waiting = asyncio.ensure_future(noticed(store, mark))
    await asyncio.sleep(0)
    await write(queue, held)
    await waiting


async def test_a_write_between_the_mark_and_the_wait_is_not_missed(queue, store):
    mark = store.mark()
    await queue.submit("greet")
    await noticed(store, mark)


async def test_a_task_that_was_written_before_the_wake_up_can_be_claimed_after_it(queue, open_store, clock):
    other = await open_store(clock)
    mark = other.mark()
    waiting = asyncio.ensure_future(noticed(other, mark))
    task = await queue.submit("greet")
    await waiting
    assert (await claim_one(other)).id == task.id


async def test_patience_ends(store):
    async with asyncio.timeout(SOON):
        await store.wait(store.mark(), 0.01)
        await store.wait(store.mark(), 0)


async def test_many_can_wait_at_once(queue, store):
    mark = store.mark()
    waiting = [asyncio.ensure_future(noticed(store, mark)) for _ in range(20)]
    await asyncio.sleep(0)
    await queue.submit("greet")
    await asyncio.gather(*waiting)


async def test_a_wait_that_is_given_up_harms_nobody(queue, store):
    mark = store.mark()
    given_up = asyncio.ensure_future(store.wait(mark, LONG))
    patient = asyncio.ensure_future(noticed(store, mark))
    await asyncio.sleep(0)
    given_up.cancel()
    await queue.submit("greet")
    await patient
    assert given_up.cancelled()


async def test_a_twin_serves_the_event_loop_of_another_thread(store):
    mark = store.mark()

    async def elsewhere():
        twin = store.twin()
        await Queue(twin).submit("greet", "from another thread")
        if twin is not store:
            await twin.close()

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await noticed(store, mark)
    await asyncio.to_thread(thread.join)
    assert (await claim_one(store)).input == "from another thread"


async def test_closing_ends_all_waits_and_closing_twice_is_fine(open_store, clock):
    store = await open_store(clock)
    waiting = asyncio.ensure_future(noticed(store, store.mark()))
    await asyncio.sleep(0)
    await store.close()
    await waiting
    await store.close()
