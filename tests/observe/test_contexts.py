"""Context variables: a handler sees what observers have set for it, and nobody sees what was left behind by a handler."""

import asyncio
import gc
import logging
import weakref
from contextvars import ContextVar

import pytest

from tenure import Worker
from tenure.observe.events import Subscriber, under_way
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore

left = ContextVar("left", default=None)
prepared = ContextVar("prepared", default=None)


class WatchedStore(MemoryStore):
    """Remembers what is in the context of whoever ends tasks."""

    def __init__(self):
        super().__init__()
        self.seen = []

    async def swap(self, changes):
        self.seen.append((left.get(), prepared.get(), under_way.get()))
        return await super().swap(changes)


class Prepares(Subscriber):
    """Sets a variable for all attempts of a worker."""

    def worker_begins(self, queues, types):
        prepared.set("by the observer")


@pytest.fixture
async def watched():
    queue = Queue(WatchedStore())
    yield queue
    await queue.close()


@pytest.mark.parametrize("observed", [True, False])
async def test_what_a_handler_leaves_in_a_variable_reaches_neither_its_end_nor_a_hook_nor_the_next(watched, observed):
    if observed:
        watched.observe(Prepares())
    worker, found, hooked = Worker(watched, concurrency=1), [], []

    @worker.task("leaves")
    async def leaves(input):
        found.append(left.get())
        left.set(input)

    @worker.on_success
    async def after(task):
        hooked.append((left.get(), prepared.get(), under_way.get()))

    await watched.submit_many([("leaves", number) for number in range(3)])
    await worker.run(until_idle=True)
    assert found == [None] * 3
    assert set(watched.store.seen) == set(hooked) == {(None, None, None)}
    assert len(hooked) == 3


async def test_what_an_observer_prepares_is_seen_by_every_handler_and_by_nobody_else(queue):
    queue.observe(Prepares())
    worker, found = Worker(queue), []

    @worker.task("looks")
    async def looks(input):
        found.append(prepared.get())

    @worker.task("plain")
    def plain(input):
        found.append(prepared.get())

    await queue.submit_many([("looks", None), ("plain", None)])
    await worker.run(until_idle=True)
    assert found == ["by the observer"] * 2
    assert prepared.get() is None


async def test_who_subscribes_while_a_worker_runs_is_asked_before_its_next_attempts(queue):
    queue.observe(Subscriber())
    worker, found = Worker(queue, concurrency=1), []

    @worker.task("subscribes")
    async def subscribes(input):
        found.append(prepared.get())
        if len(found) == 1:
            queue.observe(Prepares())
            await queue.submit("subscribes")

    await queue.submit("subscribes")
    await worker.run(until_idle=True)
    assert found == [None, "by the observer"]


async def test_the_attempt_under_way_is_known_wherever_its_handler_goes_and_nowhere_else(queue):
    queue.observe(Subscriber())
    worker, both, found = Worker(queue), asyncio.Barrier(2), {}

    async def beside():
        return under_way.get().task.input

    @worker.task("goes")
    async def goes(input):
        await both.wait()
        found[input] = [under_way.get().task.input, await asyncio.create_task(beside())]

    @worker.task("plain")
    def plain(input):
        found[input] = [under_way.get().task.input]

    await queue.submit_many([("goes", "one"), ("goes", "two"), ("plain", "three")])
    await worker.run(until_idle=True)
    assert found == {"one": ["one", "one"], "two": ["two", "two"], "three": ["three"]}
    assert under_way.get() is None


async def test_who_saw_an_attempt_begin_may_be_told_of_its_end_and_harms_nobody(queue, caplog):
    told = []

    class Watches(Subscriber):
        def attempt_begins(self, context):
            return told.append if context.task.input != "quietly" else None

    class Breaks(Subscriber):
        def attempt_begins(self, context):
            return lambda error: 1 / 0

    queue.observe(Breaks(), Watches())
    worker, error = Worker(queue, concurrency=1, retry=None), ValueError("no")

    @worker.task("ends")
    async def ends(input):
        if input == "badly":
            raise error

    await queue.submit_many([("ends", "well"), ("ends", "quietly"), ("ends", "badly")])
    with caplog.at_level(logging.ERROR, "tenure.observe"):
        assert await worker.run(until_idle=True) == 3
    assert told == [None, error]
    assert "ZeroDivisionError" in caplog.text


async def test_no_event_is_made_for_those_who_only_watch_attempts(queue, monkeypatch):
    def emit(self, events):
        raise AssertionError("an event was made")

    monkeypatch.setattr("tenure.observe.events.Events.emit", emit)
    queue.observe(Prepares())
    worker = Worker(queue)
    worker.task("greet")(lambda _: None)
    task = await queue.submit("greet")
    assert await worker.run(until_idle=True) == 1
    await queue.archive(task.id)


@pytest.mark.parametrize("observers", [(), (Prepares(), Subscriber())])
async def test_an_attempt_that_is_settled_is_free_without_the_garbage_collector(queue, observers):
    queue.observe(*observers)
    worker, attempts = Worker(queue), []

    @worker.task("greet")
    async def greet(input, context):
        attempts.append(weakref.ref(asyncio.current_task()))

    await queue.submit_many([("greet", number) for number in range(3)])
    gc.disable()
    try:
        await worker.run(until_idle=True)
        assert [attempt() for attempt in attempts] == [None] * 3
    finally:
        gc.enable()
