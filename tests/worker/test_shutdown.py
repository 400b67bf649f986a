"""Stopping: claim no more, give back, let finish, then cancel and release."""

import asyncio
import contextlib
import functools
import subprocess
import sys
import threading

import pytest
from waiting import PATIENCE, until, until_status, working

from tenure import TaskStatus, Worker, connect
from tenure.errors import StoreUnavailable
from tenure.queue import Queue
from tenure.stores.base import WORKER, Note, Want
from tenure.testing import Fault, FaultyStore
from tenure.worker import run as run_module
from tenure.worker import shutdown
from tenure.worker.heartbeat import Heartbeat
from tenure.worker.unanswered import Unanswered


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


async def test_a_worker_that_is_stopped_before_it_has_begun_takes_nothing(queue):
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(input)

    await queue.submit("job", 1)
    run = asyncio.create_task(worker.run())
    worker.stop()
    async with asyncio.timeout(PATIENCE):
        assert await run == 0
    assert ran == []
    # What stops one run is no word about the next.
    worker.stop()
    assert await worker.run(until_idle=True) == 1


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


class Crossing:
    """A claim that is done in the store, and whose answer is held up on its way."""

    def __init__(self, *stores, lost=False):
        self.answered, self.go, self.lost = asyncio.Event(), asyncio.Event(), lost
        for store in stores:
            store.claim = functools.partial(self, store.claim)

    async def __call__(self, claim, want):
        claimed = await claim(want)
        if claimed.tasks:
            self.answered.set()
            await self.go.wait()
            if self.lost:
                raise StoreUnavailable("the answer was lost")
        return claimed


def idle_worker(queue):
    worker = Worker(queue)

    @worker.task("job")
    async def job(input):
        raise AssertionError(input)

    return worker


async def test_what_a_claim_took_while_its_worker_was_cancelled_is_given_back(queue):
    task = await queue.submit("job", max_attempts=1)
    crossing = Crossing(queue.store)
    run = asyncio.create_task(idle_worker(queue).run())
    await crossing.answered.wait()
    run.cancel()
    await asyncio.sleep(0)
    crossing.go.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


@pytest.mark.parametrize("shards", [1, 2])
def test_what_a_claim_took_while_its_loop_ended_is_given_back(tmp_path, shards):
    """Also where a claim makes tasks of its own, which the end of the loop cancels."""
    files = [f"sqlite:///{tmp_path}/jobs-{number}.db" for number in range(shards)]
    url = files if shards > 1 else files[0]

    async def main():
        queue = await connect(url)
        task = await queue.submit("job", max_attempts=1)
        crossing = Crossing(*(shard.store for shard in queue.store.shards) if shards > 1 else [queue.store])
        main.running = asyncio.create_task(idle_worker(queue).run())
        await crossing.answered.wait()
        # The loop ends in between: everything that it knows of is cancelled before this is called.
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, crossing.go.set)
        return task.id

    async def look(task_id):
        async with connect(url) as queue:
            return await queue.get(task_id)

    task = asyncio.run(look(asyncio.run(main())))
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


def cancelled(worker, run):
    run.cancel()


def stopped(worker, run):
    worker.stop()


def stopped_now(worker, run):
    worker.stop(now=True)


@pytest.mark.parametrize("end", [cancelled, stopped, stopped_now])
async def test_a_claim_that_takes_too_long_keeps_no_worker_and_what_it_takes_is_given_back(queue, monkeypatch, end):
    monkeypatch.setattr(run_module, "LAST_WORDS", 0.01)
    task = await queue.submit("job", max_attempts=1)
    crossing, worker = Crossing(queue.store), idle_worker(queue)
    run = asyncio.create_task(worker.run())
    await crossing.answered.wait()
    end(worker, run)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError) if end is cancelled else contextlib.nullcontext():
            assert await run == 0
        crossing.go.set()
        while (task := await queue.get(task.id)).status is TaskStatus.Running:
            await asyncio.sleep(0)
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


@pytest.mark.parametrize("end", [cancelled, stopped, stopped_now])
async def test_what_a_claim_took_whose_answer_was_lost_as_its_worker_ended_is_given_back(queue, end):
    task = await queue.submit("job", max_attempts=1)
    crossing, worker = Crossing(queue.store, lost=True), idle_worker(queue)
    run = asyncio.create_task(worker.run())
    await crossing.answered.wait()
    end(worker, run)
    await asyncio.sleep(0)
    crossing.go.set()
    with pytest.raises(asyncio.CancelledError) if end is cancelled else contextlib.nullcontext():
        await run
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


async def test_what_a_claim_took_whose_answer_was_lost_is_given_back_by_a_worker_that_is_cancelled_before_its_next(
    queue,
):
    task = await queue.submit("job", max_attempts=1)
    crossing, worker = Crossing(queue.store, lost=True), idle_worker(queue)
    crossing.go.set()
    run = asyncio.create_task(worker.run())
    await until(lambda: worker._run is not None and worker._run.nap is not None)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


async def test_what_a_claim_took_whose_answer_was_lost_does_not_wait_for_handlers_to_finish(memory):
    worker, go, seen = Worker(memory, concurrency=2), asyncio.Event(), []

    @worker.task("job")
    async def job(input):
        seen.append(input)
        await go.wait()

    await memory.submit("job", "first")
    async with working(worker) as run:
        await until(lambda: seen)
        crossing = Crossing(memory.store, lost=True)
        task = await memory.submit("job", "second")
        await crossing.answered.wait()
        worker.stop()
        crossing.go.set()
        await until_status(memory, task.id, "pending")
        go.set()
        assert await run == 1
    assert seen == ["first"]


async def test_a_worker_ends_although_a_store_that_lost_an_answer_says_nothing_more(memory, monkeypatch):
    async def hang(query):
        await asyncio.Event().wait()

    monkeypatch.setattr(run_module, "LAST_WORDS", 0.01)
    worker, crossing = idle_worker(memory), Crossing(memory.store, lost=True)
    await memory.submit("job")
    run = asyncio.create_task(worker.run())
    await crossing.answered.wait()
    memory.store.find = hang
    worker.stop()
    crossing.go.set()
    async with asyncio.timeout(PATIENCE):
        assert await run == 0


async def test_where_every_answer_comes_nobody_looks_for_lost_ones(memory, monkeypatch):
    looks = []
    monkeypatch.setattr(Unanswered, "find", lambda *_: looks.append(1))
    worker = Worker(memory, concurrency=1)
    worker.task("job")(lambda _: None)
    await memory.submit_many([("job", number) for number in range(5)])
    assert await worker.run(until_idle=True) == 5
    assert looks == []


@pytest.mark.parametrize("cut_off", [True, False], ids=["cut off", "after it was given up"])
async def test_what_a_claim_takes_at_the_very_end_without_an_answer_is_given_back(queue, monkeypatch, cut_off):
    monkeypatch.setattr(run_module, "LAST_WORDS", 0.1)
    claim, stop = queue.store.claim, Heartbeat.stop
    begun, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def crossing(want):
        begun.set()
        await answer

    async def late(heartbeat):
        await stop(heartbeat)
        queue.store.claim = claim
        await claim(want)
        if not cut_off:
            answer.set_exception(StoreUnavailable("the answer was lost"))

    worker = idle_worker(queue)
    task = await queue.submit("job", max_attempts=1)
    queue.store.claim = crossing
    monkeypatch.setattr(Heartbeat, "stop", late)
    run = asyncio.create_task(worker.run())
    await begun.wait()
    want = Want(worker.worker_id, ("default",), {"job": 25}, 1, worker.lease)
    # A loop that ends cancels what the claim waits for, and the worker, too.
    run.cancel()
    if cut_off:
        answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    task = await queue.get(task.id)
    assert (task.status, task.attempts, task.history[-1].what) == (TaskStatus.Pending, 0, "released")


async def test_a_worker_that_is_stopped_while_it_looks_for_lost_answers_claims_no_more(memory):
    store = FaultyStore(memory.store, plan=[Fault("claim", "before", nth=1)])
    worker, find = idle_worker(Queue(store)), store.find

    async def last(query):
        worker.stop()
        return await find(query)

    store.find = last
    assert await worker.run() == 0
    assert store.calls["claim"] == 1


@pytest.mark.parametrize("end", ["stop", "cancel", "leave"])
def test_a_claim_that_never_ends_ends_with_its_loop_and_without_further_words(end):
    program = """
import asyncio, sys
from tenure import Worker, connect
from tenure.worker import run as run_module

run_module.LAST_WORDS = 0.05

async def main(end):
    queue = await connect("memory://")
    begun = asyncio.Event()

    async def claim(want):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cancelled")
            raise

    queue.store.claim = claim
    worker = Worker(queue)
    worker.task("job")(lambda _: None)
    main.run = asyncio.create_task(worker.run())
    await begun.wait()
    if end == "leave":
        return
    worker.stop() if end == "stop" else main.run.cancel()
    await asyncio.wait([main.run])

asyncio.run(main(sys.argv[1]))
"""
    words = [sys.executable, "-c", program, end]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # A loop that ends cancels what is there when it begins to.
    assert done.stdout == ("" if end == "leave" else "cancelled\n")


async def test_a_claim_that_fails_while_its_worker_is_cancelled_is_told(memory, caplog):
    async def fails(want):
        answered.set()
        await go.wait()
        raise StoreUnavailable("the store is away")

    answered, go = asyncio.Event(), asyncio.Event()
    memory.store.claim = fails
    run = asyncio.create_task(idle_worker(memory).run())
    await answered.wait()
    run.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert "a claim failed while its worker was stopping: the store is away" in caplog.text


@pytest.mark.parametrize("now", [False, True])
async def test_a_hook_that_never_ends_is_left_behind_and_neither_the_worker_nor_the_loop_waits_for_it(
    memory, monkeypatch, caplog, now
):
    monkeypatch.setattr(run_module, "LAST_WORDS", 0.01)
    monkeypatch.setattr(shutdown, "LAST_WORDS", 0.01)
    worker, hooked, over = Worker(memory, grace=3600 if now else 0.01), [], []

    @worker.task("job")
    async def job(input): ...

    @worker.on_success
    async def stuck(_):
        hooked.append(asyncio.current_task())
        while not over:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                hooked.append("cancelled")

    await memory.submit("job")
    run = asyncio.create_task(worker.run(max_tasks=1))
    await until(lambda: hooked)
    worker.stop(now=now)
    try:
        async with asyncio.timeout(PATIENCE):
            await run
        assert hooked[1:] == ["cancelled"]
        assert [line for line in caplog.messages if "hooks" in line] == [
            "1 hooks go on although they were cancelled, and are left behind"
        ]
        assert hooked[0] not in asyncio.all_tasks()
    finally:
        over.append(True)
        hooked[0].cancel()
        await asyncio.wait([hooked[0]])


def hook_that_hangs(worker):
    """What a hook at the end has done, that goes on until it is cancelled."""
    hooked = []

    @worker.on_shutdown
    async def hangs():
        hooked.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            hooked.append("cancelled")

    return hooked


@pytest.mark.parametrize("moment", ["when the grace is over", "now, before", "now, meanwhile"])
async def test_a_hook_at_the_end_that_takes_too_long_is_cancelled(memory, monkeypatch, caplog, moment):
    monkeypatch.setattr(run_module, "LAST_WORDS", 0.01)
    worker = Worker(memory, grace=3600 if moment.startswith("now") else 0.01, worker_id="w1")
    worker.task("job")(lambda _: None)
    hooked = hook_that_hangs(worker)
    run = asyncio.create_task(worker.run(until_idle=True))
    if moment == "now, before":
        worker.stop(now=True)
    await until(lambda: hooked)
    if moment == "now, meanwhile":
        worker.stop(now=True)
    async with asyncio.timeout(PATIENCE):
        assert await run == 0
    assert hooked == ["begun", "cancelled"]
    assert "the shutdown hooks of worker w1 took too long and were cancelled" in caplog.messages


async def test_a_hook_at_the_end_does_not_outlive_a_run_that_is_cancelled(memory):
    worker = idle_worker(memory)
    hooked = hook_that_hangs(worker)
    run = asyncio.create_task(worker.run(until_idle=True))
    await until(lambda: hooked)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.sleep(0)
    assert hooked == ["begun", "cancelled"]


def test_a_hook_that_ends_the_process_does_so_without_further_words(tmp_path):
    program = """
import asyncio, sys
from tenure import Worker, connect

async def main(url):
    async with connect(url) as queue:
        worker = Worker(queue)
        worker.task("job")(lambda _: None)
        worker.on_shutdown(lambda: sys.exit(3))
        await worker.run(until_idle=True)

asyncio.run(main(sys.argv[1]))
"""
    words = [sys.executable, "-c", program, f"sqlite:///{tmp_path}/jobs.db"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (3, "")


async def test_handlers_endings_and_hooks_share_one_grace(memory, monkeypatch):
    worker, waits = idle_worker(memory), []
    worker.on_shutdown(lambda: waits.append(round(worker._run.last_hooks.when() - loop.time())))
    loop = asyncio.get_running_loop()
    begun = loop.time

    async def wait_for(_, what, seconds, hurried=0):
        if not waits:
            monkeypatch.setattr(loop, "time", lambda: begun() + 20)
        waits.append(round(seconds))

    monkeypatch.setattr(shutdown.Shutdown, "wait_for", wait_for)
    await worker.run(until_idle=True)
    last_words = int(shutdown.LAST_WORDS)
    assert waits == [30, last_words, 10, last_words, 10]


async def test_a_hook_at_the_end_is_called_also_without_any_grace(memory):
    worker, hooked = Worker(memory, grace=0), []

    @worker.task("job")
    async def job(input): ...

    @worker.on_shutdown
    async def last():
        await asyncio.sleep(0)
        hooked.append("called")

    await worker.run(until_idle=True)
    assert hooked == ["called"]


async def test_a_worker_whose_name_another_process_bears_says_so(memory, caplog):
    there = {"host": "elsewhere", "pid": 7, "queues": [], "types": [], "concurrency": 1, "running": 0}
    await memory.store.put_note(Note(WORKER, "w1", {"id": "w1", "started_at": "2026-01-28T12:00:00Z", **there}))
    worker = Worker(memory, worker_id="w1")
    worker.task("job")(lambda _: None)
    await worker.run(until_idle=True)
    assert [line for line in caplog.messages if "process 7 on elsewhere" in line]
