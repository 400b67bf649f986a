"""Running a worker to the end of its work, in no time."""

from datetime import timedelta

import pytest

import tenure
from tenure import RescheduleError, RetryPolicy, TaskStatus, Worker
from tenure.testing import FakeClock, NeverDone, run_until_done


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["memory://", "sqlite:///{}/tasks.db"], ids=["memory", "sqlite"])
async def queue(request, tmp_path, clock):
    async with tenure.connect(request.param.format(tmp_path), clock=clock) as queue:
        yield queue


async def greet(input: int) -> None: ...


async def test_retries_delays_and_reschedules_take_no_time(queue, clock):
    worker = Worker(queue, retry=RetryPolicy.patient())
    began = clock()

    @worker.task("fragile")
    async def fragile(input: int, context: tenure.Context) -> int:
        if context.attempt < input:
            raise ConnectionError
        return context.attempt

    @worker.task("patient")
    async def patient(input: None, context: tenure.Context) -> None:
        if context.task.reschedules < 3:
            raise RescheduleError(delay_seconds=3600)

    fragile_one = await queue.submit("fragile", 4)
    dead = await queue.submit("fragile", 99)
    far = await queue.submit("patient", delay=timedelta(days=30))
    assert await run_until_done(worker, clock) == 4 + 5 + 4
    assert (await queue.get(fragile_one.id)).output == 4
    assert (await queue.get(dead.id)).status is TaskStatus.Failed
    assert (await queue.get(far.id)).completed_at == began + timedelta(days=30, hours=3) == clock()


async def test_tasks_that_handlers_submit_are_run_too(queue, clock):
    worker = Worker(queue)

    @worker.task("count_down")
    async def count_down(input: int, context: tenure.Context) -> None:
        if input:
            await context.queue.submit("count_down", input - 1, delay=60)

    await queue.submit("count_down", 5)
    assert await run_until_done(worker, clock) == 6


async def test_nothing_to_do_is_done_at_once(queue, clock):
    worker = Worker(queue)
    worker.register(greet)
    before = clock()
    assert await run_until_done(worker, clock) == 0
    assert clock() == before


async def test_what_the_worker_cannot_run_is_left_alone(queue, clock):
    worker = Worker(queue)
    worker.register(greet)
    foreign = await queue.submit("other", delay=5)
    elsewhere = await queue.submit("greet", queue="mail")
    late = await queue.submit("greet", delay=10, ttl=5)
    assert await run_until_done(worker, clock) == 0
    statuses = [(await queue.get(task.id)).status for task in (foreign, elsewhere, late)]
    assert statuses == ["pending", "pending", "expired"]


async def test_work_without_end_is_told(queue, clock):
    worker = Worker(queue)

    @worker.task("for_ever")
    async def for_ever(input: None) -> None:
        raise RescheduleError(delay_seconds=1)

    await queue.submit("for_ever")
    with pytest.raises(NeverDone, match="20 attempts"):
        await run_until_done(worker, clock, limit=20)


async def test_exactly_as_many_attempts_as_allowed_are_fine(queue, clock):
    worker = Worker(queue)
    worker.register(greet)
    await queue.submit_many([("greet", number) for number in range(20)])
    assert await run_until_done(worker, clock, limit=20) == 20
