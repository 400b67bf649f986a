"""Many workers and producers at once, each with connections of its own: every promise holds, and counts agree."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from tenure import Context, RetryPolicy, TaskStatus, Worker, connect, lifecycle
from tenure.lifecycle import Failure
from tenure.payload import NULL
from tenure.stores.base import Change, Renewal
from tenure.testing import check
from tenure.testing.conformance.steps import claim, everything

AT_ONCE = RetryPolicy(base=0, max_delay=0, jitter=0, max_attempts=5)
TASKS = 240


@pytest.mark.parametrize("keys", [1, 3, 20, 0], ids=lambda keys: f"{keys} ordering keys")
async def test_every_promise_holds_among_many(postgres_url, keys):
    queues = [await connect(f"{postgres_url}?connections=2") for _ in range(4)]
    executions, acknowledged, running, at_once = [], [], Counter(), []

    def worker(queue, number):
        worker = Worker(queue, worker_id=f"w{number}", concurrency=5, poll=0.05, sweep_interval=0.05, retry=AT_ONCE)

        @worker.task("greet")
        async def greet(input: int, context: Context) -> int:
            executions.append((context.task.id, context.fence))
            key = context.task.ordering_key
            running[key] += 1
            if key is not None and running[key] > 1:
                at_once.append(key)
            await asyncio.sleep(0.001)
            running[key] -= 1
            if input % 7 == 0 and context.attempt == 1:
                raise RuntimeError
            return input

        return worker

    async def produce(queue, first):
        for number in range(first, TASKS, 4):
            # One producer per key: submits that overlap have no order among themselves.
            options = {"ordering_key": f"{first}-{number % keys}"} if keys else {}
            task = await queue.submit("greet", number, idempotency_key=f"{number}", **options)
            acknowledged.append(task.id)

    workers = [worker(queue, number) for number, queue in enumerate(queues)]
    working = [asyncio.ensure_future(each.run()) for each in workers]
    await asyncio.gather(*(produce(queue, number) for number, queue in enumerate(queues)))
    async with asyncio.timeout(120):
        while (await queues[0].counts())[TaskStatus.Completed] < TASKS:
            await asyncio.sleep(0.02)
    for each in workers:
        each.stop()
    await asyncio.gather(*working)
    assert not at_once, "two tasks of one key ran at once"
    stored = await everything(queues[0].store, page=1000)
    assert check(stored, acknowledged, executions=executions, all_ended=True) == []
    counts = await queues[0].counts()
    assert counts == {**dict.fromkeys(TaskStatus, 0), TaskStatus.Completed: TASKS}
    for queue in queues:
        await queue.close()


def completions(store, held, now):
    return store.swap([Change(task, lifecycle.complete(task, task.fence, NULL, now)) for task in held])


def failures(store, held, now):
    failure = Failure("boom")
    return store.swap([Change(task, lifecycle.fail(task, task.fence, failure, AT_ONCE, now, 0)) for task in held])


def renewals(store, held, now):
    return store.renew([Renewal(task.id, task.fence, timedelta(seconds=60)) for task in held])


@pytest.mark.parametrize("call", [completions, failures, renewals])
async def test_rows_are_locked_in_the_order_of_their_ids_so_that_nobody_waits_in_a_circle(queue, postgres_admin, call):
    for number in range(3):
        await queue.submit("greet", number)
    held = await claim(queue.store, 3)
    first, *others = sorted(task.id for task in held)
    with postgres_admin.transaction():
        postgres_admin.execute("SELECT FROM tenure.tasks WHERE id = %s FOR UPDATE", (first,))
        calling = asyncio.ensure_future(call(queue.store, held[::-1], await queue.now()))
        await until_somebody_waits_for_a_lock(postgres_admin)
        # Were one of the others locked by now, this would fail at once.
        postgres_admin.execute("SELECT FROM tenure.tasks WHERE id = ANY(%s) FOR UPDATE NOWAIT", (others,))
    await calling


async def until_somebody_waits_for_a_lock(admin):
    async with asyncio.timeout(30):
        while admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone() == (0,):
            await asyncio.sleep(0.005)
