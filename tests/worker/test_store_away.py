"""A store that goes away is waited for, with one line in the log, and nothing is lost meanwhile."""

import asyncio
import logging
import re
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from waiting import until, until_status, working

from tenure import StoreUnavailable, StoreUnusable, TaskStatus, Worker
from tenure.queue import Queue
from tenure.stores.base import Want
from tenure.testing import Fault, FaultyStore
from tenure.worker import surroundings
from tenure.worker.backoff import Backoff, Outage

EVERYTHING = [Fault("*", "before")]


def warnings(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "tenure.worker" and record.levelno >= logging.WARNING
    ]


async def test_an_outage_is_waited_for_and_told_once(queue, caplog, monkeypatch):
    monkeypatch.setattr("tenure.worker.backoff.LONGEST", 0.1)
    store = FaultyStore(queue.store)
    worker = Worker(Queue(store), concurrency=3, poll=0.05, sweep_interval=0.05)
    ends, runs_on = asyncio.Event(), asyncio.Event()

    @worker.task("job")
    async def job(input):
        await {"ends": ends, "runs on": runs_on}[input].wait()

    await queue.submit_many([("job", "ends"), ("job", "runs on")])
    async with working(worker):
        await until(lambda: len(worker._run.running) == 2)
        store._trouble.plan = EVERYTHING
        ends.set()
        await until(lambda: worker._run.outage._failing.keys() == {"claim tasks", "renew leases", "end tasks"})
        seen = len(store.injected)
        await until(lambda: len(store.injected) > seen + 10)
        assert len(warnings(caplog)) == 1
        assert "will keep trying" in warnings(caplog)[0]
        store.heal()
        await until(lambda: not worker._run.outage._failing)
        runs_on.set()
        await until(lambda: not worker._run.held)
        assert len(warnings(caplog)) == 2
        assert "the store is back" in warnings(caplog)[1]


async def test_tries_are_further_and_further_apart_while_the_store_is_away(monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("tenure.worker.backoff.asyncio", SimpleNamespace(sleep=pause))
    monkeypatch.setattr("tenure.worker.backoff.random", SimpleNamespace(uniform=lambda low, high: high))
    backoff = Backoff("claim tasks", Outage())
    for _ in range(8):
        await backoff.wait(StoreUnavailable("away"))
    backoff.reset()
    await backoff.wait(StoreUnavailable("away again"))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.1]


async def test_a_handler_that_ends_while_the_store_is_away_is_settled_when_it_is_back(queue, monkeypatch):
    monkeypatch.setattr("tenure.worker.backoff.LONGEST", 0.05)
    store = FaultyStore(queue.store)
    worker = Worker(Queue(store))

    @worker.task("job")
    async def job(input):
        store._trouble.plan = EVERYTHING
        return "kept"

    task = await queue.submit("job", None)
    async with working(worker):
        await until(lambda: len([fault for fault in store.injected if fault.method in ("swap", "now", "get")]) >= 3)
        assert (await queue.get(task.id)).status is TaskStatus.Running
        store.heal()
        await until_status(queue, task.id, "completed")
    assert await queue.result(task.id) == "kept"


async def test_a_claim_whose_answer_was_lost_is_given_back_without_spending_an_attempt(queue):
    store = FaultyStore(queue.store, plan=[Fault("claim", "after", nth=1)])
    worker = Worker(Queue(store))

    @worker.task("job")
    async def job(input, context):
        return context.fence

    task = await queue.submit("job", None)
    async with working(worker):
        done = await until_status(queue, task.id, "completed")
    assert [event.what for event in done.history] == ["created", "claimed", "released", "claimed", "completed"]
    assert (done.output, done.attempts) == (2, 0)


async def test_a_claim_whose_answer_was_lost_just_before_the_stop_is_given_back_too(queue):
    worker = None

    class LosesAndStops(FaultyStore):
        async def claim(self, want):
            worker.stop()
            return await super().claim(want)

    store = LosesAndStops(queue.store, plan=[Fault("claim", "after")])
    worker = Worker(Queue(store))

    @worker.task("job")
    async def job(input): ...

    task = await queue.submit("job", None)
    assert await worker.run() == 0
    task = await queue.get(task.id)
    assert (task.status, task.attempts) == (TaskStatus.Pending, 0)


async def test_a_handler_that_was_given_up_is_no_claim_whose_answer_was_lost(timed, clock):
    """It has begun, so its lease lapses and the attempt is spent, however often the store goes away."""
    store = FaultyStore(timed.store, plan=[Fault("renew", "before")])
    worker = Worker(Queue(store), lease=2, poll=0.02)
    given_up = asyncio.Event()

    @worker.task("job")
    async def job(input, context):
        if context.attempt > 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            store._trouble.plan = EVERYTHING
            given_up.set()
            raise

    task = await timed.submit("job", None)
    async with working(worker):
        await until(given_up.is_set)
        await until(lambda: "claim tasks" in worker._run.outage._failing)
        store._trouble.plan = []
        await until(lambda: not worker._run.outage._failing)
        assert (await timed.get(task.id)).status is TaskStatus.Running
        clock.advance(2)
        done = await until_status(timed, task.id, "completed")
    assert [event.what for event in done.history] == ["created", "claimed", "lapsed", "claimed", "completed"]


@pytest.mark.parametrize("later", [1, -5], ids=["the clock goes on", "the clock is set back"])
async def test_what_an_earlier_worker_of_the_same_name_had_begun_is_left_to_lapse(timed, clock, later):
    earlier = Want("w1", ("default",), {"job": 3}, 1, timedelta(seconds=30))
    task = await timed.submit("job", None)
    await timed.store.claim(earlier)
    clock.set(clock() + timedelta(seconds=later))
    store = FaultyStore(timed.store, plan=[Fault("claim", "before", nth=1)])
    worker = Worker(Queue(store), worker_id="w1", poll=0.02)

    @worker.task("job")
    async def job(input): ...

    async with working(worker):
        await until(lambda: store.calls.get("claim", 0) > 2)
        assert (await timed.get(task.id)).status is TaskStatus.Running


class LateClaims(FaultyStore):
    """Claims that take longer than a lease, by the clock of the worker; the first so many of them, or all."""

    late_by, times = 31.0, 1_000_000

    def begin(self, monkeypatch):
        self.ahead = 0.0
        monkeypatch.setattr(surroundings, "monotonic", lambda: time.monotonic() + self.ahead)
        return self

    async def claim(self, want):
        claimed = await super().claim(want)
        if claimed.tasks and self.times:
            self.ahead += self.late_by
            self.times -= 1
        return claimed


@pytest.mark.parametrize("seconds", [11.0, 31.0])
async def test_a_store_that_takes_longer_to_claim_than_a_lease_holds_does_not_stop_the_work(
    queue, monkeypatch, caplog, seconds
):
    """What is claimed late is renewed and begins. Given back, it would be as late the next time, and for ever."""
    store = LateClaims(queue.store).begin(monkeypatch)
    store.late_by = seconds
    worker = Worker(Queue(store), lease=30)

    @worker.task("job")
    async def job(input, context):
        return context.fence

    tasks = [await queue.submit("job", None) for _ in range(3)]
    async with working(worker):
        done = [await until_status(queue, task.id, "completed") for task in tasks]
    assert [[event.what for event in task.history] for task in done] == 3 * [["created", "claimed", "completed"]]
    (took,) = re.findall(r"a claim took ([\d.]+) s, and the lease is 30 s", caplog.text)
    assert float(took) >= seconds


async def test_a_late_claim_that_another_worker_has_by_now_never_begins(timed, clock, monkeypatch):
    """Only a lease that holds allows to begin."""
    other = Want("other", ("default",), {"job": 3}, 1, timedelta(seconds=30))

    class TakenMeanwhile(LateClaims):
        async def claim(self, want):
            claimed = await super().claim(want)
            if claimed.tasks:
                clock.advance(31)
                await timed.store.claim(other)
            return claimed

    store = TakenMeanwhile(timed.store).begin(monkeypatch)
    worker = Worker(Queue(store), lease=30)
    begun = []

    @worker.task("job")
    async def job(input, context):
        begun.append(context.fence)

    task = await timed.submit("job", None)
    async with working(worker):
        await until(lambda: store.calls.get("claim", 0) > 2)
    held = await timed.get(task.id)
    assert (held.worker_id, held.fence, begun) == ("other", 2, [])


async def test_a_late_claim_that_cannot_be_renewed_is_given_back_unstarted(queue, monkeypatch):
    store = LateClaims(queue.store, plan=[Fault("renew", "before", nth=1)]).begin(monkeypatch)
    store.times = 1
    worker = Worker(Queue(store), lease=30)

    @worker.task("job")
    async def job(input, context):
        return context.fence

    async with working(worker):
        # The first beat of the heart would renew it, too; the next one comes when this is long over.
        await until(queue.workers)
        task = await queue.submit("job", None)
        done = await until_status(queue, task.id, "completed")
    assert [event.what for event in done.history] == ["created", "claimed", "released", "claimed", "completed"]
    assert (done.output, done.attempts) == (2, 0)


async def test_a_worker_stops_although_the_store_stays_away(memory, monkeypatch):
    """What it could not write is left to the lapse of the lease; that is said in the log."""
    monkeypatch.setattr("tenure.worker.run.LAST_WORDS", 0.05)
    store = FaultyStore(memory.store)
    worker = Worker(Queue(store), grace=0.05)

    @worker.task("job")
    async def job(input):
        store._trouble.plan = EVERYTHING
        worker.stop()

    task = await memory.submit("job", None)
    async with asyncio.timeout(20):
        assert await worker.run() == 0
    assert (await memory.get(task.id)).status is TaskStatus.Running


async def test_a_store_that_cannot_be_used_ends_the_worker_with_its_error(memory):
    """Waiting would not help; what runs is stopped and given back first."""
    running = asyncio.Event()

    class Breaks(FaultyStore):
        async def claim(self, want):
            if running.is_set():
                msg = "the file is damaged"
                raise StoreUnusable(msg)
            return await super().claim(want)

    worker = Worker(Queue(Breaks(memory.store)), poll=0.01)

    @worker.task("job")
    async def job(input):
        running.set()
        await asyncio.Event().wait()

    task = await memory.submit("job", None)
    with pytest.raises(StoreUnusable, match="the file is damaged"):
        async with asyncio.timeout(20):
            await worker.run()
    assert (await memory.get(task.id)).status is TaskStatus.Pending
