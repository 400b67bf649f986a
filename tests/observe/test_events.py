"""The stream: every change is told once, with what it made of the task, after the store has confirmed it."""

import asyncio
import contextlib
import logging
import re
import threading
from datetime import timedelta

import pytest

from tenure import (
    InvalidInput,
    PermanentError,
    RescheduleError,
    RetryPolicy,
    StoreUnavailable,
    Tenure,
    Worker,
    connect,
    lifecycle,
)
from tenure.observe.complaints import Complaints
from tenure.observe.events import Completed, Failed, Lapsed, Subscriber
from tenure.queue import Queue
from tenure.stores.base import Change, Want
from tenure.stores.memory import MemoryStore
from tenure.sweeper import Sweeper
from tenure.testing import FakeClock, Fault, FaultyStore


def worker_on(queue, **settings):
    return Worker(queue, worker_id="w1", retry=RetryPolicy(base=0, jitter=0), **settings)


async def test_a_task_is_submitted_claimed_and_completed(observed, listener):
    worker = worker_on(observed)

    @worker.task("greet")
    async def greet(input):
        return "hello"

    task = await observed.submit("greet")
    await worker.run(until_idle=True)
    assert listener.names == ["Submitted", "Claimed", "Completed"]
    assert {event.task.id for event in listener.events} == {task.id}
    assert listener.events[-1].task.output == "hello"
    assert listener.events[-1].seconds >= 0


class Waiting(Subscriber):
    async def happened(self, events): ...


@pytest.mark.parametrize(
    ("subscriber", "words"),
    [
        (Subscriber, "write an object of it: Subscriber()"),
        (print, "is no subscriber"),
        (Waiting(), "Waiting.happened is a coroutine"),
    ],
)
async def test_what_would_hear_nothing_is_refused_and_changes_nothing(queue, listener, subscriber, words):
    app = Tenure("memory://")
    for observe in (queue.observe, app.observe):
        with pytest.raises(InvalidInput, match=re.escape(words)):
            observe(listener, subscriber)
    assert queue.events.subscribers == ()
    await queue.submit("greet")
    assert listener.events == []


async def test_the_first_look_of_a_worker_sees_it(queue, monkeypatch):
    worker, begun, seen = Worker(queue), threading.Event(), []
    put_note = MemoryStore.put_note

    class Looking(Subscriber):
        async def look(self, queue):
            seen.append(len(await queue.workers()))

    async def late(store, note, **how):
        await asyncio.to_thread(begun.wait, 60)
        return await put_note(store, note, **how)

    @worker.task("greet")
    async def greet(input):
        begun.set()
        while not seen:
            await asyncio.sleep(0)

    monkeypatch.setattr(MemoryStore, "put_note", late)
    await queue.observe(Looking()).submit("greet")
    async with asyncio.timeout(60):
        await worker.run(until_idle=True)
    assert seen[0] == 1


async def test_what_happens_at_once_is_told_together(observed, listener):
    await observed.submit_many([("greet", number) for number in range(50)])
    await asyncio.sleep(0)
    assert [len(batch) for batch in listener.batches] == [50]


async def test_a_repeat_is_no_new_task(observed, listener):
    for _ in range(3):
        await observed.submit("greet", task_id="one")
    await asyncio.sleep(0)
    assert listener.names == ["Submitted"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("no"), "error"), (PermanentError("never"), "permanent"), (TimeoutError(), "error")],
)
async def test_a_failure_carries_its_exception_and_a_reason(observed, listener, error, reason):
    worker = worker_on(observed)

    @worker.task("breaks")
    async def breaks(input):
        raise error

    await observed.submit("breaks", max_attempts=1)
    await worker.run(until_idle=True)
    failed = listener.events[-1]
    assert isinstance(failed, Failed)
    assert (failed.error, failed.reason, failed.dead, failed.retried) == (error, reason, True, False)


async def test_a_timeout_and_a_wrong_input_have_reasons_of_their_own(observed, listener):
    worker = worker_on(observed)

    @worker.task("hangs", timeout=0.01)
    async def hangs(input):
        await asyncio.Event().wait()

    @worker.task("counts")
    async def counts(input: int): ...

    await observed.submit("hangs", max_attempts=1)
    await observed.submit("counts", "many")
    await worker.run(until_idle=True)
    assert {event.reason for event in listener.events if isinstance(event, Failed)} == {"timeout", "input"}


async def test_a_failure_that_is_tried_again_is_not_dead(observed, listener):
    worker = worker_on(observed)

    @worker.task("flaky")
    async def flaky(input, context):
        if context.attempt == 1:
            raise ValueError

    await observed.submit("flaky")
    await worker.run(until_idle=True)
    assert listener.names == ["Submitted", "Claimed", "Failed", "Claimed", "Completed"]
    assert (listener.events[2].retried, listener.events[2].dead) == (True, False)


async def test_what_operators_do_is_told(observed, listener):
    one = await observed.submit("greet")
    await observed.cancel(one.id)
    await observed.retry(one.id)
    await observed.mark_expired(one.id)
    await observed.archive(one.id)
    await asyncio.sleep(0)
    assert listener.names == ["Submitted", "Cancelled", "Requeued", "Expired", "Archived"]


async def test_a_reschedule_and_a_release_are_told(observed, listener):
    worker = worker_on(observed, grace=0)

    @worker.task("again")
    async def again(input, context):
        raise RescheduleError(delay_seconds=3600)

    @worker.task("long")
    async def long(input, context):
        worker.stop()
        await asyncio.Event().wait()

    await observed.submit("again")
    await worker.run(until_idle=True)
    await observed.submit("long")
    await worker.run()
    assert listener.names == ["Submitted", "Claimed", "Rescheduled", "Submitted", "Claimed", "Released"]


async def test_a_claim_that_lapsed_is_told_by_whoever_finds_it(listener):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(listener)
        await queue.submit("greet", max_attempts=1)
        await queue.submit("greet", ttl=10)
        await queue.store.claim(Want("gone", ("default",), {"greet": 1}, 1, timedelta(seconds=5)))
        clock.advance(20)
        swept = await Sweeper(queue.store, events=queue.events).sweep()
        await asyncio.sleep(0)
    assert len(swept) == 2
    assert sorted(listener.names) == ["Expired", "Lapsed", "Submitted", "Submitted"]
    (lapsed,) = [event for event in listener.events if isinstance(event, Lapsed)]
    assert (lapsed.dead, lapsed.reason) == (True, "lapsed")


async def test_what_a_claim_finds_overdue_is_told(listener):
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        queue.observe(listener)
        await queue.submit("greet", ttl=1)
        clock.advance(2)
        worker = worker_on(queue)
        worker.task("greet")(lambda _: None)
        await worker.run(until_idle=True)
    assert listener.names == ["Submitted", "Expired"]


async def test_a_completion_after_the_lapse_is_late(observed, listener):
    worker = worker_on(observed)

    @worker.task("slow")
    async def slow(input, context):
        task = context.task
        await observed.store.swap([Change(task, lifecycle.lapse(task, task.lease_expires_at))])

    await observed.submit("slow")
    await worker.run(max_tasks=1)
    assert isinstance(listener.events[-1], Completed)
    assert listener.events[-1].late


async def test_a_worker_that_lost_its_claim_says_so(observed, listener):
    worker = worker_on(observed)

    @worker.task("slow")
    async def slow(input, context):
        task = context.task
        lapsed = lifecycle.lapse(task, task.lease_expires_at)
        await observed.store.swap([Change(task, lapsed)])
        await observed.cancel(task.id)

    await observed.submit("slow")
    await worker.run(max_tasks=1)
    assert listener.names == ["Submitted", "Claimed", "Cancelled", "Lost"]


@pytest.mark.parametrize("kind", ["before", "after"])
async def test_a_submit_whose_answer_was_lost_is_told_when_the_store_shows_it(listener, kind):
    store = FaultyStore(MemoryStore(), plan=[Fault("insert", kind, nth=1)])
    queue = Queue(store).observe(listener)
    with pytest.raises(StoreUnavailable):
        await queue.submit("greet", task_id="one")
    assert listener.names == []
    repeat = await queue.submit("greet", task_id="one")
    assert repeat.created is (kind == "before")
    await queue.close()
    assert listener.names == ["Submitted"]


async def test_an_operator_s_change_whose_answer_was_lost_is_told_once(listener):
    queue = Queue(FaultyStore(MemoryStore(), plan=[Fault("swap", "after", nth=1)])).observe(listener)
    task = await queue.submit("greet")
    with pytest.raises(StoreUnavailable):
        await queue.cancel(task.id)
    await queue.cancel(task.id)
    await queue.events.resolve(queue.store)
    await queue.close()
    assert listener.names == ["Submitted", "Cancelled"]


async def test_an_ending_whose_answer_was_lost_is_told_once(listener):
    queue = Queue(FaultyStore(MemoryStore(), plan=[Fault("swap", "after", nth=1)])).observe(listener)
    worker = worker_on(queue)
    worker.task("greet")(lambda _: None)
    await queue.submit("greet")
    await worker.run(until_idle=True)
    await queue.close()
    assert listener.names == ["Submitted", "Claimed", "Completed"]


async def test_a_subscriber_that_fails_harms_nobody(queue, listener, caplog):
    class Broken(Subscriber):
        def happened(self, events):
            raise ZeroDivisionError

        def attempt_begins(self, context):
            raise ZeroDivisionError

    queue.observe(Broken(), listener)
    worker = worker_on(queue)
    worker.task("greet")(lambda _: None)
    await queue.submit("greet")
    with caplog.at_level(logging.ERROR, "tenure.observe"):
        await worker.run(until_idle=True)
    assert listener.names == ["Submitted", "Claimed", "Completed"]
    assert "failed" in caplog.text


async def test_what_fails_with_every_event_is_told_once_a_minute(queue, caplog):
    class Broken(Subscriber):
        def happened(self, events):
            raise {"divides": ZeroDivisionError, "looks": KeyError}[events[0].task.type]

        def attempt_begins(self, context):
            raise ZeroDivisionError

    now = 0.0
    queue.events.complaints = Complaints(lambda: now)
    queue.observe(Broken())

    async def told(*types):
        caplog.clear()
        for type_ in types:
            await queue.submit(type_)
            await asyncio.sleep(0)
        return [(record.exc_info[0], record.getMessage().partition(" failed")[2]) for record in caplog.records]

    assert await told("divides", "divides", "divides") == [(ZeroDivisionError, "")]
    assert await told("divides", "looks", "looks") == [(KeyError, "")]
    now = 60.0
    assert await told("divides", "divides") == [(ZeroDivisionError, ", as it did 3 times since it was last told")]
    for _ in range(2):
        queue.events.attempt_begins(None)
    assert len(caplog.records) == 2


async def test_with_nobody_listening_no_event_is_made(queue, monkeypatch):
    def emit(self, event):
        raise AssertionError("an event was made")

    monkeypatch.setattr("tenure.observe.events.Events.emit", emit)
    worker = worker_on(queue)
    worker.task("greet")(lambda _: None)
    task = await queue.submit("greet")
    await worker.run(until_idle=True)
    await queue.archive(task.id)


class Breaking(Subscriber):
    """Raises wherever it can; a subscriber after it must not notice."""

    def __init__(self, where):
        self.where = where

    @contextlib.contextmanager
    def submitting(self, options, types, tasks):
        if self.where == "before":
            raise RuntimeError("mine")
        yield
        if self.where == "after":
            raise RuntimeError("mine")

    async def look(self, queue):
        raise RuntimeError("mine")


class Around(Subscriber):
    """Keeps what it saw of submits and looks."""

    def __init__(self):
        self.saw = []

    @contextlib.contextmanager
    def submitting(self, options, types, tasks):
        try:
            yield
        except Exception as error:
            self.saw.append(type(error))
            raise
        self.saw.append([task.type for task in tasks])

    async def look(self, queue):
        self.saw.append("looked")


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_subscriber_that_raises_around_a_submit_is_logged_and_harms_nobody(queue, caplog, where):
    around = Around()
    queue.observe(Breaking(where), around)
    task = await queue.submit("greet")
    assert await queue.get(task.id) == task
    assert around.saw == [["greet"]]
    assert "RuntimeError: mine" in caplog.text


async def test_a_submit_that_fails_is_seen_by_those_around_it_and_raises_its_own_error(queue):
    around = Around()
    queue.observe(Breaking("after"), around)
    with pytest.raises(InvalidInput, match="delay"):
        await queue.submit("greet", delay=-1)
    assert around.saw == [InvalidInput]


async def test_a_subscriber_whose_look_raises_keeps_no_other_from_looking(queue, caplog):
    around = Around()
    queue.observe(Breaking("look"), around)
    await queue.events.look(queue)
    assert around.saw == ["looked"]
    assert "RuntimeError: mine" in caplog.text
