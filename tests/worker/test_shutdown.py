"""Stopping: claim no more, give back, let finish, then cancel and release."""

import asyncio
import threading

import pytest
from waiting import PATIENCE, until, working

from tenure import TaskStatus, Worker, connect
from tenure.stores.base import WORKER, Note
from tenure.worker import run as run_module
from tenure.worker import shutdown


async def test_a_graceful_stop_lets_what_runs_finish(queue):
    worker = Worker(queue, concurrency=2)
    go = asyncio.Event()

    @worker.task("job")
    async def job(input):
        await go.wait()
        return "finished"

    tasks = await queue.submit_many([("job", None)] * 5)
    async with working(worker) as run:
        await until(lambda: len(worker._run.running) == 2)
        worker.stop()
        await asyncio.sleep(0)
        assert not run.done()
        go.set()
        assert await run == 2
    statuses = [(await queue.get(task.id)).status for task in tasks]
    assert sorted(statuses) == ["completed"] * 2 + ["pending"] * 3


async def test_what_does_not_finish_within_the_grace_is_cancelled_and_released_at_once(queue):
    worker = Worker(queue, grace=0.05)
    cancelled = []

    @worker.task("job")
    async def job(input):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(input)
            raise

    task = await queue.submit("job", "slow")
    async with working(worker) as run:
        await until(lambda: worker._run.running)
        worker.stop()
        await run
    assert cancelled == ["slow"]
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.worker_id, task.lease_expires_at) == (TaskStatus.Pending, 0, None, None)
    assert task.history[-1].what == "released"
    assert task.history[-1].why == "its worker was shut down"


async def test_a_second_stop_does_not_wait_for_the_grace(queue):
    worker = Worker(queue, grace=3600)

    @worker.task("job")
    async def job(input):
        await asyncio.Event().wait()

    task = await queue.submit("job", None)
    async with working(worker) as run:
        await until(lambda: worker._run.running)
        worker.stop()
        worker.stop(now=True)
        async with asyncio.timeout(PATIENCE):
            await run
    assert (await queue.get(task.id)).status is TaskStatus.Pending


async def test_a_thread_that_outlives_the_grace_is_left_behind_and_its_task_released(queue):
    worker = Worker(queue, grace=0.05)
    started, go, done = threading.Event(), threading.Event(), threading.Event()

    @worker.task("job")
    def job(input):
        started.set()
        go.wait(PATIENCE)
        done.set()
        return "too late"

    task = await queue.submit("job", None)
    async with working(worker) as run:
        await until(started.is_set)
        worker.stop()
        await run
    assert (await queue.get(task.id)).status is TaskStatus.Pending
    go.set()
    await until(done.is_set)
    assert (await queue.get(task.id)).status is TaskStatus.Pending


async def test_cancelling_the_run_releases_what_runs(queue):
    """`asyncio.run` cancels its main task on Ctrl-C; nothing is left behind with a lease."""
    worker = Worker(queue)

    @worker.task("job")
    async def job(input):
        await asyncio.Event().wait()

    task = await queue.submit("job", None)
    run = asyncio.create_task(worker.run())
    await until(lambda: worker._run and worker._run.running)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await queue.get(task.id)).status is TaskStatus.Pending
    assert await queue.workers(gone=True) == []


async def test_an_idle_worker_stops_at_once(queue):
    worker = Worker(queue, poll=3600)

    @worker.task("job")
    async def job(input): ...

    async with working(worker) as run:
        await until(lambda: worker._run.nap is not None)
        worker.stop()
        async with asyncio.timeout(PATIENCE):
            assert await run == 0


async def test_a_released_task_is_taken_by_the_next_worker_without_waiting_for_the_lease(queue):
    first, second = Worker(queue, lease=3600, grace=0), Worker(queue)
    for worker in (first, second):

        @worker.task("job")
        async def job(input, context, mine=worker):
            if mine is first:
                await asyncio.Event().wait()
            return context.fence

    task = await queue.submit("job", None)
    async with working(first) as run:
        await until(lambda: first._run.running)
        first.stop()
        await run
    await second.run(until_idle=True)
    assert await queue.result(task.id) == 2


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_loop_that_ends_with_a_worker_on_it_spends_no_attempts(tmp_path, kind):
    """`asyncio.run` cancels everything at once, handlers as well as the worker."""
    url, go = f"sqlite:///{tmp_path}/jobs.db", threading.Event()

    async def main():
        queue = await connect(url)
        worker = Worker(queue)

        if kind == "async":

            @worker.task("job")
            async def job(input):
                await asyncio.Event().wait()

        else:

            @worker.task("job")
            def plain_job(input):
                go.wait(PATIENCE)

        task = await queue.submit("job", max_attempts=1)
        main.running = asyncio.create_task(worker.run())
        await until(lambda: worker._run is not None and worker._run.running)
        return task.id

    async def look(task_id):
        async with connect(url) as queue:
            return await queue.get(task_id)

    task_id = asyncio.run(main())
    go.set()
    task = asyncio.run(look(task_id))
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


@pytest.mark.parametrize("now", [False, True])
async def test_a_hook_that_never_ends_does_not_keep_a_worker_from_ending(memory, monkeypatch, now):
    monkeypatch.setattr(run_module, "LAST_WORDS", 0.01)
    monkeypatch.setattr(shutdown, "LAST_WORDS", 0.01)
    worker, hooked = Worker(memory, grace=3600 if now else 0.01), []

    @worker.task("job")
    async def job(input): ...

    @worker.on_success
    async def stuck(task):
        hooked.append(task.id)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if len(hooked) > 1:
                    raise
                hooked.append("cancelled")

    await memory.submit("job")
    run = asyncio.create_task(worker.run())
    await until(lambda: hooked)
    worker.stop(now=now)
    async with asyncio.timeout(PATIENCE):
        await run
    assert hooked[1:] == ["cancelled"]


async def test_a_worker_whose_name_another_process_bears_says_so(memory, caplog):
    there = {"host": "elsewhere", "pid": 7, "queues": [], "types": [], "concurrency": 1, "running": 0}
    await memory.store.put_note(Note(WORKER, "w1", {"id": "w1", "started_at": "2026-01-28T12:00:00Z", **there}))
    worker = Worker(memory, worker_id="w1")
    worker.task("job")(lambda _: None)
    await worker.run(until_idle=True)
    assert [line for line in caplog.messages if "process 7 on elsewhere" in line]
