"""The library keeps a lease for as long as its handler runs, and lets go when it cannot."""

import asyncio
import sqlite3
import threading
import time
from concurrent.futures import Future
from datetime import timedelta
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from waiting import PATIENCE, until, until_status, working

from tenure import InvalidInput, StoreUnavailable, TaskStatus, Worker, connect, lifecycle
from tenure.queue import Queue
from tenure.stores.base import Change, Want
from tenure.testing import Fault, FaultyStore
from tenure.worker import heartbeat as heartbeat_module
from tenure.worker import surroundings
from tenure.worker.backoff import Outage
from tenure.worker.heartbeat import Heartbeat


async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(tmp_path):
    """It blocks until the file itself shows that the lease was renewed twice."""
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as queue:
        worker = Worker(queue, lease=0.3)

        @worker.task("block")
        async def block(input, context):
            seen = [context.task.lease_expires_at.timestamp()]
            with sqlite3.connect(tmp_path / "jobs.db") as look:
                deadline = time.monotonic() + PATIENCE
                while len(seen) < 3 and time.monotonic() < deadline:
                    (lease,) = look.execute("SELECT lease_expires_at FROM tenure_tasks").fetchone()
                    if lease / 1e6 > seen[-1] + 0.001:
                        seen.append(lease / 1e6)
            look.close()
            return seen

        task = await queue.submit("block", None)
        await worker.run(until_idle=True)
        seen = await queue.result(task.id)
        assert len(seen) == 3
        assert [event.what for event in await queue.history(task.id)] == ["created", "claimed", "completed"]


async def test_all_running_tasks_are_renewed_in_one_call(memory):
    sizes = []

    class Counting(FaultyStore):
        async def renew(self, renewals):
            sizes.append(len(renewals))
            return await super().renew(renewals)

    worker = Worker(Queue(Counting(memory.store)), concurrency=20, lease=0.3)

    @worker.task("long")
    async def long(input):
        await until(lambda: 20 in sizes)

    await memory.submit_many([("long", None)] * 20)
    assert await worker.run(until_idle=True) == 20
    assert max(sizes) == 20


async def test_what_a_renewal_takes_is_part_of_the_time_until_the_next(memory, monkeypatch):
    """At a third of the lease, however slow the store is; after a failure the next try waits."""
    ahead = [100.0]
    monkeypatch.setattr(surroundings, "monotonic", lambda: ahead[0])

    class Slow(FaultyStore):
        async def put_note(self, note, *, if_version=None):
            ahead[0] += 0.4
            return await super().put_note(note, if_version=if_version)

    heartbeat = Heartbeat(Slow(memory.store), "w1", timedelta(seconds=1.5), list, dict, None, None, Outage())
    await heartbeat._once(heartbeat._store)
    assert heartbeat._pause() == pytest.approx(0.1)
    ahead[0] += 0.4
    assert heartbeat._pause() == 0
    heartbeat._failing = True
    assert heartbeat._pause() == pytest.approx(0.5)


async def test_a_store_that_is_slower_than_a_short_lease_is_waited_for_and_not_asked_from_the_start_each_time(
    memory, monkeypatch
):
    """A new connection may take longer than a lease. Cut off each time, it would never be there."""
    ahead, asked, answer = [100.0], [], asyncio.Event()
    monkeypatch.setattr(surroundings, "monotonic", lambda: ahead[0])

    class Slow(FaultyStore):
        async def put_note(self, note, *, if_version=None):
            asked.append(note.key)
            await answer.wait()
            return True

    heartbeat = Heartbeat(Slow(memory.store), "w1", timedelta(seconds=0.01), list, dict, None, None, Outage())
    heartbeat._stop = asyncio.Event()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await heartbeat._answered(heartbeat._store)
    assert len(asked) == 1
    ahead[0] += 60
    with pytest.raises(StoreUnavailable):
        await heartbeat._answered(heartbeat._store)
    assert heartbeat._beating is None, "what takes far too long gives way to another"
    answer.set()
    monkeypatch.setattr(heartbeat, "_patience", lambda: PATIENCE)
    await heartbeat._answered(heartbeat._store)
    assert len(asked) == 2


async def test_a_beat_does_not_fail_because_nobody_waits_any_longer_for_the_first(memory):
    class CancelledMeanwhile(Future):
        def set_result(self, result):
            self.cancel()
            super().set_result(result)

    heartbeat = Heartbeat(memory.store, "w1", timedelta(seconds=30), list, dict, None, None, Outage())
    heartbeat.announced = CancelledMeanwhile()
    await heartbeat._once(memory.store)
    assert heartbeat.announced.cancelled()


async def test_a_worker_that_cannot_sign_off_says_so_and_ends(memory, monkeypatch, caplog):
    monkeypatch.setattr(heartbeat_module, "FAREWELL", 0.01)

    class Deaf(FaultyStore):
        async def put_note(self, note, *, if_version=None):
            if not note.value:
                await asyncio.Event().wait()
            return await super().put_note(note, if_version=if_version)

    worker = Worker(Queue(Deaf(memory.store)), worker_id="w1")
    worker.task("job")(lambda _: None)
    assert await worker.run(until_idle=True) == 0
    words = "worker w1 could not sign off and is listed for a while: no answer within 0.01 s"
    assert words in [record.getMessage() for record in caplog.records]


async def test_a_claimed_task_that_waits_for_a_slot_is_renewed_too(memory):
    worker = Worker(memory, concurrency=1, lease=0.3, sweep_interval=60)
    blocked, go = asyncio.Event(), asyncio.Event()

    @worker.task("job")
    async def job(input):
        if input == "slow":
            blocked.set()
            await go.wait()

    await memory.submit_many([("job", "quick")] * 2000, priority=1)
    await memory.submit_many([("job", "slow")] * 100)
    async with working(worker):
        await blocked.wait()
        waiting = worker._run.buffer[0].task

        async def renewed():
            return (await memory.get(waiting.id)).lease_expires_at > waiting.lease_expires_at

        await until(renewed)
        go.set()


async def test_a_worker_that_lost_its_lease_cancels_the_handler_and_writes_nothing(queue):
    worker = Worker(queue, lease=0.3, concurrency=1)
    started, cancelled = asyncio.Event(), asyncio.Event()

    @worker.task("job")
    async def job(input):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = await queue.submit("job", None)
    async with working(worker):
        await started.wait()
        taken = await taken_over(queue, task.id)
        await cancelled.wait()
        await until(lambda: not worker._run.held)
        now = await queue.get(task.id)
        assert (now.version, now.worker_id, now.fence) == (taken.version, "somebody else", taken.fence)


async def test_a_worker_that_claims_a_lapsed_task_of_its_own_gives_up_the_older_run_of_it(timed, clock):
    worker = Worker(timed, lease=60, poll=0.02, concurrency=2)
    interrupted = []

    @worker.task("job")
    async def job(input, context):
        if context.attempt > 1:
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.append(context.fence)
            raise

    task = await timed.submit("job", None)
    async with working(worker):
        await until(lambda: worker._run.running)
        # The first beat of the heart renews; the next one comes when this is long over.
        await until(timed.workers)
        clock.advance(61)
        done = await until_status(timed, task.id, "completed")
        await until(lambda: not worker._run.running)
    assert interrupted == [done.history[1].fence]
    assert [event.what for event in done.history] == ["created", "claimed", "lapsed", "claimed", "completed"]


async def test_a_thread_that_lost_its_lease_ends_without_a_word(queue):
    worker = Worker(queue, lease=0.3, concurrency=1)
    started, go = threading.Event(), threading.Event()

    @worker.task("job")
    def job(input):
        started.set()
        go.wait(PATIENCE)
        return "too late"

    task = await queue.submit("job", None)
    async with working(worker):
        await until(started.is_set)
        taken = await taken_over(queue, task.id)
        await until(lambda: not worker._run.held)
        go.set()
        await until(lambda: not worker._run.executors.abandoned)
    assert (await queue.get(task.id)).version == taken.version


async def test_leases_that_cannot_be_renewed_are_given_up(queue, caplog):
    faulty = FaultyStore(queue.store, plan=[Fault("renew", "before")])
    worker = Worker(Queue(faulty), lease=2)
    given_up = []

    @worker.task("job")
    async def job(input, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(context.attempt)
            worker.stop(now=True)
            raise

    await queue.submit("job", None)
    async with working(worker):
        await until(lambda: given_up)
    # That it happens in time is shown below, by a clock that a busy machine does not move.
    assert given_up[0] == 1
    assert [line.why for line in caplog.records if hasattr(line, "why")] == ["the lease could not be kept"]


async def test_leases_are_given_up_too_when_the_store_does_not_answer_at_all(queue):
    """A call that hangs is no better than one that fails."""

    here = asyncio.get_running_loop()

    class Hanging(FaultyStore):
        async def renew(self, renewals):
            # A slow machine may have claimed late, which is renewed from here before it begins.
            if asyncio.get_running_loop() is here:
                return await super().renew(renewals)
            return await asyncio.Event().wait()

    worker = Worker(Queue(Hanging(queue.store)), lease=2)
    given_up = []

    @worker.task("job")
    async def job(input, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.append(context.attempt)
            worker.stop(now=True)
            raise

    await queue.submit("job", None)
    async with working(worker):
        await until(lambda: given_up)
    # That it happens in time is shown below, by a clock that a busy machine does not move.
    assert given_up[0] == 1


async def test_a_lease_that_was_renewed_in_time_survives_a_short_outage(queue):
    faulty = FaultyStore(queue.store, plan=[Fault("renew", "before", nth=(1, 2))])
    worker = Worker(Queue(faulty), lease=1.0)

    @worker.task("job")
    async def job(input):
        await until(lambda: faulty.calls.get("renew", 0) > 3)
        return "kept"

    task = await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert await queue.result(task.id) == "kept"


async def test_a_heartbeat_survives_whatever_a_handler_reports(memory):
    """Bad reports are refused in the handler, so that one handler cannot cost the others their leases."""
    worker = Worker(memory, lease=3)
    refused = []

    @worker.task("job")
    async def job(input, context):
        for report in ((float("nan"),), (float("inf"), 1), (1, float("nan")), ("half",), (None,)):
            try:
                context.progress(*report)
            except InvalidInput as error:
                refused.append(str(error))
        first = context.task.lease_expires_at

        async def renewed():
            return (await memory.get(context.task.id)).lease_expires_at > first

        await until(renewed)

    task = await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert (await memory.get(task.id)).status is TaskStatus.Completed
    assert len(refused) == 5


async def test_a_worker_is_seen_while_it_works_and_not_afterwards(queue):
    worker = Worker(queue, worker_id="w1", queues=("default", "mail"), concurrency=7)

    @worker.task("job")
    async def job(input): ...

    async with working(worker):
        (seen,) = await until(queue.workers)
        assert (seen.id, seen.alive, seen.concurrency) == ("w1", True, 7)
        assert (seen.queues, seen.types) == (["default", "mail"], ["job"])
    assert await queue.workers(gone=True) == []


async def taken_over(queue, task_id):
    """What the store shows after the lease has lapsed and another worker was faster than this one to claim."""
    want = Want("somebody else", ("default",), {"job": 25}, 1, timedelta(minutes=5))
    while True:
        (task,) = await queue.store.get([task_id])
        lapsed = replace(lifecycle.lapse(task, task.lease_expires_at), available_at=task.created_at)
        await queue.store.swap([Change(task, lapsed)])
        for claimed in (await queue.store.claim(want)).tasks:
            return claimed


@pytest.mark.parametrize("claimed", ["just as it begins", "nearly a lease ago"])
async def test_a_beat_without_an_answer_ends_before_the_leases_do(memory, monkeypatch, claimed):
    """Also when nothing was held as it looked how long it may take, and when it is the last try."""
    now, given_up = [100.0], []
    monkeypatch.setattr(surroundings, "monotonic", lambda: now[0])

    async def wait(futures, *, timeout, return_when):
        now[0] += timeout
        return set(), futures

    monkeypatch.setattr(asyncio, "wait", wait)
    held_until = 101.0 if claimed == "just as it begins" else 100.1
    attempt = SimpleNamespace(task=await memory.submit("job"), context=None, settled=False, held_until=held_until)
    looks = [[]] if claimed == "just as it begins" else []
    heartbeat = Heartbeat(
        memory.store, "w1", timedelta(seconds=1), lambda: looks.pop() if looks else [attempt], dict,
        lambda attempt: given_up.append(now[0]), None, Outage(),
    )  # fmt: skip
    heartbeat._stop = asyncio.Event()
    with pytest.raises(StoreUnavailable):
        await heartbeat._answered(memory.store)
    heartbeat._give_up_late()
    await heartbeat._leave()
    assert [at < held_until for at in given_up] == [True]


@pytest.mark.parametrize("lease", [0.3, 2, 30, 3600])
async def test_beats_that_fail_are_repeated_until_there_is_just_time_to_give_up(memory, monkeypatch, lease):
    now, given_up, beats = [100.0], [], 0
    monkeypatch.setattr(surroundings, "monotonic", lambda: now[0])
    attempt = SimpleNamespace(task=await memory.submit("job"), context=None, settled=False, held_until=100.0 + lease)
    heartbeat = Heartbeat(
        FaultyStore(memory.store, plan=[Fault("renew", "before")]), "w1", timedelta(seconds=lease), lambda: [attempt],
        dict, lambda attempt: given_up.append(now[0]), None, Outage(),
    )  # fmt: skip
    heartbeat._stop, heartbeat._failing = asyncio.Event(), True
    while not given_up:
        with pytest.raises(StoreUnavailable):
            await heartbeat._answered(heartbeat._store)
        beats += 1
        heartbeat._give_up_late()
        now[0] += heartbeat._pause()
    assert beats >= 3
    assert attempt.held_until - lease / 10 - 1e-6 <= given_up[0] < attempt.held_until
