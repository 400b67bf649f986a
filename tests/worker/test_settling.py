"""Endings are written together, and an ending that was written is never taken back."""

import asyncio

from waiting import until

from tenure import Worker, payload
from tenure.queue import Queue
from tenure.testing import Fault, FaultyStore


async def test_tasks_that_end_together_are_settled_in_few_writes(queue):
    counted = Queue(FaultyStore(queue.store))
    worker = Worker(counted, concurrency=100)
    together = asyncio.Barrier(100)

    @worker.task("job")
    async def job(input):
        await together.wait()

    await queue.submit_many([("job", None)] * 100)
    assert await worker.run(until_idle=True) == 100
    assert counted.store.calls["swap"] <= 5


async def test_endings_with_much_to_store_are_written_in_several_batches(queue, monkeypatch):
    monkeypatch.setattr("tenure.worker.settler.BYTES", 1000)
    store = FaultyStore(queue.store)
    written = []

    async def swap(changes, swap=store.swap):
        written.append(sum(payload.size(change.after.output_json) for change in changes))
        return await swap(changes)

    monkeypatch.setattr(store, "swap", swap)
    worker = Worker(Queue(store), concurrency=20)
    together = asyncio.Barrier(20)

    @worker.task("job")
    async def job(input):
        await together.wait()
        return "x" * 298

    await queue.submit_many([("job", None)] * 20)
    assert await worker.run(until_idle=True) == 20
    assert sum(written) == 20 * 300
    assert max(written) <= 1000


async def test_an_ending_whose_answer_was_lost_is_not_written_twice(queue):
    faulty = Queue(FaultyStore(queue.store, plan=[Fault("swap", "after", nth=1)]))
    worker = Worker(faulty)
    ended = []
    worker.on_success(lambda task: ended.append(task.id))

    @worker.task("job")
    async def job(input):
        return "done"

    task = await queue.submit("job", None)
    assert await worker.run(until_idle=True) == 1
    history = await queue.history(task.id)
    assert [event.what for event in history] == ["created", "claimed", "completed"]
    assert ended == [task.id]


async def test_an_ending_is_written_again_when_the_store_did_not_get_it(queue):
    faulty = Queue(FaultyStore(queue.store, plan=[Fault("swap", "before", nth=(1, 2))]))
    worker = Worker(faulty)

    @worker.task("job")
    async def job(input):
        return "done"

    task = await queue.submit("job", None)
    assert await worker.run(until_idle=True) == 1
    assert await queue.result(task.id) == "done"


async def test_a_cancel_request_does_not_get_lost_between_the_handlers_end_and_its_settling(queue):
    """The handler finished, so the task is completed although somebody asked it to stop meanwhile."""
    worker = Worker(queue)

    @worker.task("job")
    async def job(input, context):
        await queue.cancel(context.task.id, "changed my mind")
        return "finished anyway"

    task = await queue.submit("job", None)
    await worker.run(until_idle=True)
    assert await queue.result(task.id) == "finished anyway"
    assert [event.what for event in await queue.history(task.id)] == [
        "created",
        "claimed",
        "cancel requested",
        "completed",
    ]


async def test_an_end_whose_answer_was_lost_is_told_once_also_when_the_next_write_fails(memory):
    store = FaultyStore(memory.store, plan=[Fault("swap", "after", nth=1), Fault("swap", "before", nth=2)])
    worker, go, told = Worker(Queue(store), concurrency=2), asyncio.Event(), []

    @worker.task("job")
    async def job(input):
        await go.wait()

    @worker.on_success
    async def succeeded(task):
        told.append(task.id)

    tasks = await memory.submit_many([("job", "fits"), ("job", "has changed")])
    run = asyncio.create_task(worker.run(max_tasks=2))
    await until(lambda: worker._run is not None and len(worker._run.running) == 2)
    await memory.cancel(tasks[1].id)
    go.set()
    assert await run == 2
    assert [fault.method for fault in store.injected] == ["swap", "swap"]
    assert sorted(told) == sorted(task.id for task in tasks)
