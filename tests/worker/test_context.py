"""What a handler can see and ask."""

import asyncio
import contextvars
import logging
from datetime import timedelta

import pytest
from waiting import until, until_status, working

from tenure import InvalidInput, LeaseLost, Progress, RetryPolicy, Worker, lifecycle
from tenure.stores.base import Change


async def test_a_handler_sees_its_task_attempt_fence_and_queue(queue):
    worker = Worker(queue, worker_id="w1", retry=RetryPolicy(base=0, jitter=0))
    seen = []

    @worker.task("job")
    async def job(input, context):
        seen.append((context.task.id, context.attempt, context.fence, context.task.worker_id, context.queue is queue))
        if context.attempt == 1:
            raise ValueError("once more")

    task = await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert seen == [(task.id, 1, 1, "w1", True), (task.id, 2, 2, "w1", True)]


async def test_progress_is_seen_by_others_while_the_handler_runs(queue):
    worker = Worker(queue, lease=0.3)
    go = asyncio.Event()

    @worker.task("job")
    async def job(input, context):
        context.progress(1, 3, "unpacking")
        await go.wait()

    task = await queue.submit("job", None)
    async with working(worker):

        async def progress():
            return (await queue.get(task.id)).progress

        assert await until(progress) == Progress(1, 3, "unpacking")
        go.set()
        await until_status(queue, task.id, "completed")


async def test_progress_from_a_thread_is_seen_too(queue):
    worker = Worker(queue, lease=0.3, grace=0)
    seen = asyncio.Event()

    @worker.task("job")
    def job(input, context):
        context.progress(0.5)
        asyncio.run_coroutine_threadsafe(seen.wait(), loop).result(20)

    loop = asyncio.get_running_loop()
    task = await queue.submit("job", None)
    async with working(worker):

        async def progress():
            return (await queue.get(task.id)).progress

        assert await until(progress) == Progress(0.5)
        seen.set()
        await until_status(queue, task.id, "completed")


@pytest.mark.parametrize("report", [(None,), ("half",), (True,), (float("nan"),), (1, float("inf")), (1, "all")])
async def test_progress_must_be_numbers(memory, report):
    worker = Worker(memory, retry=None)
    refused = []

    @worker.task("job")
    async def job(input, context):
        with pytest.raises(InvalidInput, match="must be a finite number") as error:
            context.progress(*report)
        refused.append(error)

    await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert len(refused) == 1


async def test_a_longer_lease_can_be_asked_for(timed, clock):
    worker = Worker(timed, lease=30)
    seen = []

    @worker.task("job")
    async def job(input, context):
        await context.extend_lease(600)
        seen.append((await timed.get(context.task.id)).lease_expires_at)
        await context.extend_lease(timedelta(seconds=5))
        seen.append((await timed.get(context.task.id)).lease_expires_at)

    await timed.submit("job", None)
    await worker.run(until_idle=True)
    longest = clock() + timedelta(seconds=600)
    assert seen == [longest, longest]


async def test_a_lease_that_is_lost_cannot_be_extended(queue):
    worker = Worker(queue)
    raised = []

    @worker.task("job")
    async def job(input, context):
        await queue.pause()
        task = await queue.get(context.task.id)
        await queue.store.swap([Change(task, lifecycle.release(task, task.fence, await queue.now(), "by hand"))])
        try:
            await context.extend_lease(60)
        except LeaseLost as error:
            raised.append(error)
            raise

    task = await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert len(raised) == 1
    assert (await queue.get(task.id)).attempts == 0


@pytest.mark.parametrize("seconds", [-1, "long", None])
async def test_a_lease_is_extended_by_seconds(memory, seconds):
    worker = Worker(memory, retry=None)

    @worker.task("job")
    async def job(input, context):
        await context.extend_lease(seconds)

    task = await memory.submit("job", None)
    await worker.run(until_idle=True)
    assert "InvalidInput: seconds" in (await memory.get(task.id)).last_error


async def test_the_logger_of_a_context_puts_the_task_on_every_line(memory, caplog):
    worker = Worker(memory, worker_id="w1")

    @worker.task("job")
    async def job(input, context):
        context.logger.info("hello %s", "there")

    with caplog.at_level(logging.INFO, logger="tenure.task"):
        task = await memory.submit("job", None)
        await worker.run(until_idle=True)
    (line,) = [record for record in caplog.records if record.name == "tenure.task"]
    assert line.getMessage() == "hello there"
    assert (line.task_id, line.task_type, line.attempt, line.worker_id) == (task.id, "job", 1, "w1")


async def test_the_logger_of_a_context_keeps_the_fields_of_a_line(memory, caplog):
    worker = Worker(memory)

    @worker.task("job")
    async def job(input, context):
        context.logger.info("paid", extra={"order_id": 7, "task_id": "another"})
        context.logger.info("sent", extra=None)

    with caplog.at_level(logging.INFO, logger="tenure.task"):
        task = await memory.submit("job", None)
        await worker.run(until_idle=True)
    paid, sent = [record for record in caplog.records if record.name == "tenure.task"]
    assert (paid.order_id, paid.task_id, sent.task_id) == (7, task.id, task.id)


async def test_what_a_handler_leaves_in_context_variables_is_not_seen_by_the_next(memory):
    variable = contextvars.ContextVar("variable", default=None)
    worker, seen = Worker(memory, concurrency=1), []

    @worker.task("remembers")
    async def remembers(input):
        seen.append(variable.get())
        variable.set(input)

    await memory.submit_many([("remembers", number) for number in range(5)])
    await worker.run(until_idle=True)
    assert seen == [None] * 5


async def test_a_plain_handler_submits_through_its_context(queue):
    worker = Worker(queue)

    @worker.task("parent")
    def parent(input, context):
        return context.wait_for(context.queue.submit("child", input)).id

    task = await queue.submit("parent", 7)
    await worker.run(until_idle=True)
    assert (await queue.get(await queue.result(task.id))).input == 7


async def test_a_handler_on_the_loop_is_told_to_await_instead(queue):
    worker = Worker(queue, retry=None)

    @worker.task("parent")
    async def parent(input, context):
        context.wait_for(context.queue.submit("child", input))

    task = await queue.submit("parent", 7)
    await worker.run(until_idle=True)
    assert "InvalidHandler: context.wait_for is for plain handlers" in (await queue.get(task.id)).last_error
