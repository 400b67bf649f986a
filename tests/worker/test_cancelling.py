"""Stopping a task that runs: it is asked, it gets a moment, and what it finished counts."""

import asyncio
import threading

import pytest
from waiting import PATIENCE, until, until_status, working

from tenure import TaskStatus, Worker


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    """How often the heartbeat looks for requests; the rule is the same at any interval."""
    monkeypatch.setattr("tenure.worker.heartbeat.CHECK_INTERVAL", 0.02)


async def test_a_handler_that_looks_can_end_in_its_own_way(queue):
    worker = Worker(queue, cancel_grace=PATIENCE)
    started = asyncio.Event()

    @worker.task("job")
    async def job(input, context):
        started.set()
        await until(lambda: context.cancel_requested)
        return "tidied up"

    task = await queue.submit("job", None)
    async with working(worker):
        await started.wait()
        asked = await queue.cancel(task.id, reason="no longer needed", by="ada")
        assert (asked.status, asked.cancel_requested) == (TaskStatus.Running, True)
        done = await until_status(queue, task.id, "completed")
    assert done.output == "tidied up"


async def test_a_handler_that_looks_and_gives_up_ends_as_cancelled(queue):
    worker = Worker(queue, cancel_grace=PATIENCE)
    started = asyncio.Event()

    @worker.task("job")
    async def job(input, context):
        started.set()
        await until(lambda: context.cancel_requested)
        raise RuntimeError("gave up half-way")

    task = await queue.submit("job", None)
    async with working(worker):
        await started.wait()
        await queue.cancel(task.id, reason="no longer needed", by="ada")
        done = await until_status(queue, task.id, "cancelled")
    assert (done.cancelled_by, done.cancel_reason) == ("ada", "no longer needed")
    assert done.cancelled_at is not None


async def test_a_coroutine_that_does_not_listen_is_cancelled_after_the_grace(queue):
    worker = Worker(queue, cancel_grace=0.05)
    started, seen = asyncio.Event(), []

    @worker.task("job")
    async def job(input, context):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(context.cancel_requested)
            raise

    task = await queue.submit("job", None)
    async with working(worker):
        await started.wait()
        await queue.cancel(task.id)
        done = await until_status(queue, task.id, "cancelled")
    assert seen == [True]
    assert [event.what for event in done.history] == ["created", "claimed", "cancel requested", "stopped"]
    assert done.attempts == 0


async def test_a_thread_that_finishes_is_completed_although_it_was_asked_to_stop(queue):
    worker = Worker(queue, cancel_grace=0)
    started, asked = threading.Event(), threading.Event()

    @worker.task("job")
    def job(input, context):
        started.set()
        asked.wait(PATIENCE)
        return "finished"

    task = await queue.submit("job", None)
    async with working(worker):
        await until(started.is_set)
        await queue.cancel(task.id)
        await until(lambda: any(attempt.stopped for attempt in worker._run.running))
        asked.set()
        done = await until_status(queue, task.id, "completed")
    assert done.output == "finished"


async def test_a_thread_that_was_asked_to_stop_and_does_not_cannot_hold_up_the_shutdown(memory):
    worker = Worker(memory, cancel_grace=0, grace=0.05)
    started, go = threading.Event(), threading.Event()

    @worker.task("job")
    def job(input):
        started.set()
        go.wait(PATIENCE)

    task = await memory.submit("job", None)
    async with working(worker) as run:
        await until(started.is_set)
        await memory.cancel(task.id)
        await until(lambda: any(attempt.stopped for attempt in worker._run.running))
        worker.stop()
        async with asyncio.timeout(PATIENCE / 2):
            await asyncio.wait([run])
        assert run.done()
    go.set()
    assert (await memory.get(task.id)).status is TaskStatus.Cancelled


async def test_a_claimed_task_that_is_cancelled_before_it_starts_never_starts(queue):
    worker = Worker(queue, concurrency=1)
    blocked, go = asyncio.Event(), asyncio.Event()
    ran = []

    @worker.task("job")
    async def job(input):
        ran.append(input)
        if input == "slow":
            blocked.set()
            await go.wait()

    await queue.submit_many([("job", "quick")] * 1500, priority=2)
    await queue.submit("job", "slow", priority=1)
    waiting = await queue.submit_many([("job", f"waiting {number}") for number in range(20)])
    async with working(worker):
        await blocked.wait()
        ahead = {attempt.task.id for attempt in worker._run.buffer}
        victim = next((task for task in waiting if task.id in ahead), None)
        assert victim is not None, "the quick tasks should have led to claims ahead"
        await queue.cancel(victim.id)
        await until(lambda: any(a.task.id == victim.id and a.stopped for a in worker._run.held.values()))
        go.set()
        await until_status(queue, victim.id, "cancelled")
    assert victim.input not in ran


async def test_an_attempt_that_is_stopped_before_its_first_step_is_given_back(memory):
    """The stop comes between the claim and the first step of the handler."""
    worker, ran = None, []

    class StopsAfterTheClaim(type(memory.store)):
        async def claim(self, want):
            claimed = await super().claim(want)
            if claimed.tasks:
                asyncio.get_running_loop().call_soon(lambda: worker.stop(now=True))
            return claimed

    memory.store.__class__ = StopsAfterTheClaim
    worker = Worker(memory)

    @worker.task("job")
    async def job(input):
        ran.append(input)

    tasks = await memory.submit_many([("job", number) for number in range(5)])
    async with asyncio.timeout(20):
        assert await worker.run() == len(ran)
    for task in tasks:
        assert (await memory.get(task.id)).status in (TaskStatus.Pending, TaskStatus.Completed)
