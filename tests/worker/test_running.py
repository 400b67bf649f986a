"""How long a worker runs, and what it counts."""

import asyncio

import pytest
from waiting import until, until_status, working

from tenure import InvalidHandler, InvalidInput, RetryPolicy, TaskStatus, Worker, connect


def counting(queue, **settings):
    worker = Worker(queue, **settings)
    worker.ran = []

    @worker.task("job")
    async def job(input):
        worker.ran.append(input)

    return worker


async def test_until_idle_runs_everything_that_is_due_and_returns_how_many(queue):
    worker = counting(queue)
    await queue.submit_many([("job", number) for number in range(100)])
    assert await worker.run(until_idle=True) == 100
    assert sorted(worker.ran) == list(range(100))


async def test_until_idle_leaves_what_is_not_due_and_what_it_cannot_handle(queue):
    worker = counting(queue)
    later = await queue.submit("job", "later", delay=3600)
    other = await queue.submit("other", None)
    elsewhere = await queue.submit("job", None, queue="elsewhere")
    assert await worker.run(until_idle=True) == 0
    for task in (later, other, elsewhere):
        assert (await queue.get(task.id)).status is TaskStatus.Pending


async def test_until_idle_also_runs_what_handlers_submit(queue):
    worker = Worker(queue)

    @worker.task("count_down")
    async def count_down(input, context):
        if input:
            await context.queue.submit("count_down", input - 1)

    await queue.submit("count_down", 5)
    assert await worker.run(until_idle=True) == 6


async def test_until_idle_waits_for_what_runs(queue):
    worker = Worker(queue, concurrency=2)
    go = asyncio.Event()

    @worker.task("slow")
    async def slow(input):
        await go.wait()

    await queue.submit("slow", None)
    async with working(worker, until_idle=True) as run:
        await until(lambda: worker._run.running and worker._run.nap is not None)
        assert not run.done()
        go.set()
        assert await run == 1


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_max_tasks_runs_exactly_so_many(queue, concurrency):
    worker = counting(queue, concurrency=concurrency)
    await queue.submit_many([("job", number) for number in range(300)])
    assert await worker.run(max_tasks=250) == 250
    assert len(worker.ran) == 250
    counts = await queue.counts()
    assert (counts[TaskStatus.Completed], counts[TaskStatus.Pending]) == (250, 50)
    assert {task.version for task in (await queue.list("pending")).tasks} == {1}


async def test_max_tasks_counts_runs_and_not_tasks_that_were_given_back(memory, monkeypatch):
    monkeypatch.setattr("tenure.worker.run.BUFFER_PATIENCE", 0.0)
    worker = Worker(memory, concurrency=1, sweep_interval=0.01)
    ran = []

    @worker.task("job")
    async def job(input):
        ran.append(input)
        if input == 500 and worker._run.buffer:
            await until(lambda: not worker._run.buffer)

    await memory.submit_many([("job", number) for number in range(800)])
    assert await worker.run(max_tasks=700) == 700
    assert len(ran) == 700


async def test_max_tasks_waits_for_tasks_that_come_later(queue):
    worker = counting(queue)
    async with working(worker, max_tasks=2) as run:
        first = await queue.submit("job", 1)
        await until_status(queue, first.id, "completed")
        assert not run.done()
        await queue.submit("job", 2)
        assert await run == 2


async def test_max_tasks_and_until_idle_go_together(queue):
    worker = counting(queue)
    await queue.submit_many([("job", number) for number in range(5)])
    assert await worker.run(until_idle=True, max_tasks=3) == 3
    assert await worker.run(until_idle=True, max_tasks=3) == 2


async def test_an_attempt_that_fails_counts_as_run(queue):
    worker = Worker(queue, retry=RetryPolicy(base=0, jitter=0))

    @worker.task("job")
    async def job(input):
        raise ValueError("no")

    await queue.submit("job", None)
    assert await worker.run(max_tasks=3) == 3


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3"])
async def test_max_tasks_must_be_a_number_of_tasks(memory, number):
    with pytest.raises(InvalidInput, match="max_tasks="):
        await counting(memory).run(max_tasks=number)


async def test_a_worker_can_run_again(queue):
    worker = counting(queue)
    for number in range(3):
        await queue.submit("job", number)
        assert await worker.run(until_idle=True) == 1
    assert worker.ran == [0, 1, 2]


async def test_running_twice_at_once_is_refused(memory):
    worker = counting(memory)
    async with working(worker):
        with pytest.raises(InvalidInput, match="is running already"):
            await worker.run()


async def test_a_worker_without_handlers_is_refused(memory):
    with pytest.raises(InvalidHandler, match=r"@worker\.task"):
        await Worker(memory).run()


async def test_stopping_a_worker_that_does_not_run_changes_nothing(memory):
    worker = counting(memory)
    worker.stop()
    await memory.submit("job", 1)
    assert await worker.run(until_idle=True) == 1


async def test_a_task_is_started_when_it_is_due_without_waiting_for_the_poll(queue):
    worker = counting(queue, poll=3600)
    async with working(worker):
        await until(lambda: worker._run.nap is not None)
        task = await queue.submit("job", "soon", delay=0.05)
        done = await until_status(queue, task.id, "completed")
    assert done.started_at >= done.available_at


async def test_several_workers_share_a_queue_without_running_anything_twice(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with connect(url) as one, connect(url) as other:
        workers = [counting(one, concurrency=3), counting(other, concurrency=3), counting(other, concurrency=3)]
        await one.submit_many([("job", number) for number in range(300)])
        counts = await asyncio.gather(*(worker.run(until_idle=True) for worker in workers))
        assert sum(counts) == 300
        assert sorted(number for worker in workers for number in worker.ran) == list(range(300))


async def test_queues_and_types_of_others_are_left_alone(queue):
    worker = counting(queue, queues=("mail", "reports"))
    await queue.submit("job", 1, queue="mail")
    await queue.submit("job", 2, queue="reports")
    await queue.submit("job", 3)
    assert await worker.run(until_idle=True) == 2
    assert sorted(worker.ran) == [1, 2]


async def test_a_paused_queue_is_not_worked_until_it_is_resumed(queue):
    worker = counting(queue)
    await queue.pause("default", "maintenance")
    task = await queue.submit("job", 1)
    assert await worker.run(until_idle=True) == 0
    async with working(worker):
        await until(lambda: worker._run.nap is not None)
        await queue.resume("default")
        await until_status(queue, task.id, "completed")
