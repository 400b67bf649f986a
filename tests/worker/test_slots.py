"""A worker takes what it has room for, and gives back what it does not start."""

import asyncio

from waiting import until, until_status, working

from tenure import TaskStatus, Worker
from tenure.worker.prefetch import LIMIT


async def test_never_more_handlers_run_at_once_than_there_are_slots(queue):
    worker = Worker(queue, concurrency=3)
    running, most = 0, 0

    @worker.task("step")
    async def step(input):
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1

    await queue.submit_many([("step", number) for number in range(200)])
    assert await worker.run(until_idle=True) == 200
    assert most == 3


async def test_a_worker_that_has_ended_nothing_yet_claims_no_more_than_it_has_slots(queue):
    worker = Worker(queue, concurrency=4)
    go = asyncio.Event()

    @worker.task("wait")
    async def wait(input):
        await go.wait()

    await queue.submit_many([("wait", number) for number in range(50)])
    async with working(worker):
        await until(lambda: len(worker._run.running) == 4)
        await worker._run._wait_for_change()
        counts = await queue.counts()
        assert (counts[TaskStatus.Running], counts[TaskStatus.Pending]) == (4, 46)
        go.set()


async def test_what_is_claimed_ahead_is_bounded(queue):
    """The faster tasks end, the more are claimed ahead, up to a fixed number."""
    worker = Worker(queue, concurrency=2)
    most_ahead = 0

    @worker.task("quick")
    async def quick(input):
        nonlocal most_ahead
        most_ahead = max(most_ahead, len(worker._run.buffer))

    await queue.submit_many([("quick", None)] * 1500)
    assert await worker.run(until_idle=True) == 1500
    assert most_ahead <= LIMIT + 2


async def test_what_was_claimed_ahead_is_given_back_on_shutdown_without_spending_an_attempt(queue):
    worker = Worker(queue, concurrency=1)
    go, blocked = asyncio.Event(), asyncio.Event()

    @worker.task("job")
    async def job(input):
        if input == "slow":
            blocked.set()
            await go.wait()

    quick = await queue.submit_many([("job", "quick")] * 2000, priority=1)
    slow = await queue.submit_many([("job", "slow")] * 500)
    async with working(worker) as run:
        await blocked.wait()
        ahead = [attempt.task.id for attempt in worker._run.buffer]
        assert ahead, "the quick tasks should have led to claims ahead"
        worker.stop()
        go.set()
        await run
    for task_id in ahead:
        task = await queue.get(task_id)
        assert (task.status, task.attempts, task.worker_id) == (TaskStatus.Pending, 0, None)
        assert [event.what for event in task.history] == ["created", "claimed", "released"]
    counts = await queue.counts()
    assert counts[TaskStatus.Completed] == len(quick) + 1
    assert counts[TaskStatus.Pending] == len(slow) - 1


async def test_what_waits_too_long_for_a_slot_is_given_back_so_that_others_can_take_it(queue, monkeypatch):
    monkeypatch.setattr("tenure.worker.run.BUFFER_PATIENCE", 0.0)
    worker = Worker(queue, concurrency=1, sweep_interval=0.01)
    go, blocked = asyncio.Event(), asyncio.Event()

    @worker.task("job")
    async def job(input):
        if input == "slow":
            blocked.set()
            await go.wait()

    await queue.submit_many([("job", "quick")] * 2000, priority=1)
    await queue.submit_many([("job", "slow")] * 50)
    async with working(worker):
        await blocked.wait()
        await until(lambda: not worker._run.buffer)

        async def others_are_pending():
            return (await queue.counts())[TaskStatus.Running] == 1

        await until(others_are_pending)
        go.set()


async def test_a_slot_whose_thread_still_runs_is_not_free(memory, monkeypatch):
    """A thread cannot be stopped: after a timeout its slot stays taken until it is really done.

    Until then nothing is claimed ahead for it either, however fast tasks have ended.
    """
    import threading

    monkeypatch.setattr("tenure.worker.prefetch.Prefetch.room", lambda _, waiting: 5 - waiting)
    worker = Worker(memory, concurrency=1, poll=0.01)
    go = threading.Event()

    @worker.task("stuck", timeout=0.01, retry=None)
    def stuck(input):
        go.wait()

    @worker.task("other")
    async def other(input):
        return "ran"

    first = await memory.submit("stuck", None)
    async with working(worker):
        await until_status(memory, first.id, "failed")
        second = await memory.submit("other", None)
        for _ in range(5):
            await worker._run._wait_for_change()
        assert (await memory.get(second.id)).status is TaskStatus.Pending
        go.set()
        await until_status(memory, second.id, "completed")
