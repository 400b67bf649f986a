"""Every worker also does what time does: lapses, deadlines, retention. No other process is needed."""

from datetime import timedelta

import pytest
from waiting import until, until_status, working

from tenure import Queue, TaskStatus, Worker, connect
from tenure.stores.base import Want
from tenure.stores.memory import MemoryStore


@pytest.fixture
def sweeping(timed):
    """A worker that has nothing to do with the tasks of the test."""
    worker = Worker(timed, sweep_interval=0.01, poll=3600, retention={"completed": timedelta(days=7)})

    @worker.task("something else")
    async def other(input): ...

    return worker


async def test_a_scheduled_task_that_nobody_polls_expires_on_time(timed, clock, sweeping):
    task = await timed.submit("job", None, delay=3600, ttl=60)
    async with working(sweeping):
        clock.advance(60)
        expired = await until_status(timed, task.id, "expired")
    assert (expired.expired_at, expired.attempts) == (clock(), 0)


async def test_a_lapsed_claim_is_recovered_by_a_worker_that_does_not_handle_its_type(timed, clock, sweeping):
    task = await timed.submit("job", None)
    await timed.store.claim(Want("gone", ("default",), {"job": 25}, 1, timedelta(seconds=30)))
    async with working(sweeping):
        clock.advance(30)
        recovered = await until_status(timed, task.id, "pending")
    assert recovered.attempts == 1
    assert recovered.last_error == "lease lapsed (held by gone)"
    assert recovered.available_at == clock()


async def test_a_poison_pill_is_dead_after_its_last_attempt(timed, clock, sweeping):
    task = await timed.submit("job", None, max_attempts=2)
    for _ in range(2):
        await timed.store.claim(Want("dies", ("default",), {"job": 25}, 1, timedelta(seconds=30)))
        clock.advance(30)
        async with working(sweeping):

            async def not_running():
                return (await timed.get(task.id)).status is not TaskStatus.Running

            await until(not_running)
    dead = await timed.get(task.id)
    assert (dead.status, dead.attempts) == (TaskStatus.Failed, 2)


async def test_ended_tasks_are_pruned_when_they_were_kept_long_enough(timed, clock, sweeping):
    worker = Worker(timed)

    @worker.task("job")
    async def job(input): ...

    task = await timed.submit("job", None)
    await worker.run(until_idle=True)
    clock.advance(timedelta(days=7) - timedelta(seconds=1))
    kept = await timed.submit("job", None)
    await worker.run(until_idle=True)
    clock.advance(1)
    async with working(sweeping):

        async def gone():
            return await timed.get(task.id) is None

        await until(gone)
    assert (await timed.get(kept.id)).status is TaskStatus.Completed


async def test_dead_letters_are_kept_until_told_otherwise(timed, clock):
    worker = Worker(timed, sweep_interval=0.01, retry=None)

    @worker.task("job")
    async def job(input):
        if input == "bad":
            raise ValueError(input)

    dead = await timed.submit("job", "bad")
    good = await timed.submit("job", "good")
    await worker.run(until_idle=True)
    clock.advance(timedelta(days=3650))
    async with working(worker):

        async def gone():
            return await timed.get(good.id) is None

        await until(gone)
    assert (await timed.get(dead.id)).status is TaskStatus.Failed


async def test_a_task_of_a_killed_worker_is_run_by_another_after_the_lapse(clock, tmp_path):
    """The claim itself recovers it; no sweep is needed."""
    async with connect(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as queue:
        task = await queue.submit("job", None)
        await queue.store.claim(Want("gone", ("default",), {"job": 25}, 1, timedelta(seconds=30)))
        worker = Worker(queue, sweep_interval=3600)

        @worker.task("job")
        async def job(input, context):
            return context.attempt

        assert await worker.run(until_idle=True) == 0
        clock.advance(30)
        assert await worker.run(until_idle=True) == 1
        assert await queue.result(task.id) == 2


@pytest.mark.parametrize("forgets", [False, True], ids=["nothing to forget", "something to forget"])
async def test_where_looks_are_paid_for_a_worker_that_found_nothing_to_forget_waits_before_it_looks_again(forgets):
    looks = []

    class Paid(MemoryStore):
        prune_interval = 3600.0

        async def overdue(self, now, limit):
            looks.append("sweep")
            return await super().overdue(now, limit)

        async def prune(self, ended_before, now, limit):
            looks.append("prune")
            return int(forgets)

    worker = Worker(Queue(Paid()), sweep_interval=0.001)

    @worker.task("job")
    async def job(input): ...

    async with working(worker):
        await until(lambda: looks.count("sweep") >= 5)
    expected = ["sweep", "prune", "sweep", "prune"] if forgets else ["sweep", "prune", "sweep", "sweep"]
    assert looks[:4] == expected
