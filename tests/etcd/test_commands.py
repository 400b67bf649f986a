"""The five commands of the replicated queue and each of their answers, in the words of this library.

| command | answer | here |
|---|---|---|
| ENQUEUE | ENQUEUED | `submit(task_id=…)` with `created=True` |
| | DUPLICATE | `created=False`, and the task as it is |
| CLAIM | CLAIMED | the task in `Claimed.tasks`, with a fence |
| | UNAVAILABLE | `CannotClaim`; to a worker, it is just not among what it gets |
| | NOT_FOUND | `TaskNotFound` |
| COMPLETE | COMPLETED | the task, `completed` |
| | NOT_OWNER | `LeaseLost` |
| | NOT_FOUND | `TaskNotFound` |
| FAIL | RETRYING | the task, `pending`, one attempt spent |
| | PERMANENTLY_FAILED | the task, `failed` |
| | INVALID_FAIL | `LeaseLost` or `TaskNotFound` |
| EXPIRE | EXPIRED n | the tasks that a sweep has settled |
| | NO_EXPIRED | none of them, and nothing was written |
"""

import asyncio

import pytest

from tenure import lifecycle
from tenure.errors import CannotClaim, LeaseLost, StoreUnavailable, TaskNotFound
from tenure.observe.alerts import DEEP, FAILED_SHARE, LEASES
from tenure.queue import Queue
from tenure.sweeper import Sweeper
from tenure.task import Task
from tenure.testing.conformance.steps import LEASE, claim, claim_one, complete, fail, read


@pytest.fixture
def queue(store):
    return Queue(store)


async def enqueued(queue, store, clock):
    task = await queue.submit("greet", {"to": "user@example.com"}, task_id="task-42")
    return (task.created, task.status, task.attempts) == (True, "pending", 0)


async def duplicate(queue, store, clock):
    first = await queue.submit("greet", 1, task_id="task-42")
    again = await queue.submit("greet", 2, task_id="task-42")
    return (again.created, again.input, again.created_at) == (False, 1, first.created_at)


async def duplicate_of_an_ended_one(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    await complete(store, await claim_one(store))
    again = await queue.submit("greet", task_id="task-42")
    return (again.created, again.status) == (False, "completed")


async def claimed(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    held = await claim_one(store, by="worker-A")
    return (held.id, held.worker_id, held.lease_expires_at) == ("task-42", "worker-A", clock() + LEASE)


async def unavailable(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    held = await claim_one(store, by="worker-A")
    with pytest.raises(CannotClaim, match="running"):
        lifecycle.claim(held, worker_id="worker-B", now=clock(), lease=LEASE, policy_max=1)
    return await claim(store, by="worker-B") == []


async def claim_of_an_unknown_one_is_not_found(queue, store, clock):
    with pytest.raises(TaskNotFound):
        await queue.history("task-42")
    return await claim(store) == []


async def completed(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    done = await complete(store, await claim_one(store), "success")
    return (done.status, done.output) == ("completed", "success") and (await queue.counts())["completed"] == 1


async def not_owner(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    old = await claim_one(store, by="worker-A")
    clock.advance(LEASE)
    new = await claim_one(store, by="worker-A")
    with pytest.raises(LeaseLost):
        await complete(store, old)
    return await read(store, "task-42") == new and new.fence > old.fence


async def completion_of_an_unknown_one_is_not_found(queue, store, clock):
    with pytest.raises(TaskNotFound):
        await complete(store, Task("task-42", "greet", clock(), clock(), fence=1))
    return True


async def retrying(queue, store, clock):
    await queue.submit("greet", task_id="task-42", max_attempts=2)
    again = await fail(store, await claim_one(store), "boom")
    return (again.status, again.attempts, again.last_error) == ("pending", 1, "boom")


async def permanently_failed(queue, store, clock):
    await queue.submit("greet", task_id="task-42", max_attempts=1)
    dead = await fail(store, await claim_one(store), "boom")
    return (dead.status, dead.attempts) == ("failed", 1) and (await queue.counts())["failed"] == 1


async def invalid_fail(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    held = await claim_one(store)
    await complete(store, held)
    with pytest.raises(LeaseLost):
        await fail(store, held)
    return (await read(store, "task-42")).status == "completed"


async def expired(queue, store, clock):
    await queue.submit("greet", task_id="again", max_attempts=2)
    await queue.submit("greet", task_id="dead", max_attempts=1)
    await claim(store, 2)
    clock.advance(LEASE)
    swept = {task.id: task.status for task in await Sweeper(store).sweep()}
    return swept == {"again": "pending", "dead": "failed"}


async def no_expired(queue, store, clock):
    await queue.submit("greet")
    await claim_one(store)
    clock.advance(LEASE / 2)
    before = store._db.writer.transactions
    return await Sweeper(store).sweep() == [] and store._db.writer.transactions == before


@pytest.mark.parametrize(
    "answer",
    [
        enqueued, duplicate, duplicate_of_an_ended_one, claimed, unavailable, claim_of_an_unknown_one_is_not_found,
        completed, not_owner, completion_of_an_unknown_one_is_not_found, retrying, permanently_failed, invalid_fail,
        expired, no_expired,
    ],
    ids=lambda answer: answer.__name__,
)  # fmt: skip
async def test_each_answer_of_the_five_commands(queue, store, clock, answer):
    assert await answer(queue, store, clock)


async def test_the_fence_is_the_revision_of_the_log_at_which_the_claim_was_made(queue, store):
    await queue.submit("greet")
    held = await claim_one(store)
    assert held.fence == int((await store.about())["revision"])
    await queue.submit("greet", task_id="another")
    assert (await read(store, held.id)).fence == held.fence


async def test_the_end_of_a_claim_is_a_time_and_not_a_place_in_the_log(queue, store, clock):
    for number in range(20):
        await queue.submit("greet", number)
    ends = [held.lease_expires_at for held in await claim(store, 3)]
    assert ends == [clock() + LEASE] * 3


async def test_scenario_one_a_worker_crashes_in_the_middle_of_a_task(queue, store, clock):
    await queue.submit("greet", task_id="task-42")
    crashed = await claim_one(store, by="worker-A")
    clock.advance(LEASE)
    await Sweeper(store).sweep()
    again = await claim_one(store, by="worker-B")
    await complete(store, again, "by worker-B")
    with pytest.raises(LeaseLost):
        await complete(store, crashed, "by worker-A")
    stored = await read(store, "task-42")
    assert (stored.output, stored.attempts) == ("by worker-B", 1)
    assert [event.what for event in stored.history] == ["created", "claimed", "lapsed", "claimed", "completed"]


async def test_scenario_two_a_submit_that_was_not_committed_is_refused_and_can_be_made_again(cluster):
    from tenure import connect

    async with connect(cluster.url("tenure", "?timeout=1")) as queue:
        await queue.submit("greet", task_id="before")
        for member in cluster.members[1:]:
            member.stop()
        with pytest.raises(StoreUnavailable):
            await queue.submit("greet", task_id="task-99")
        await asyncio.to_thread(cluster.start)
        again = await queue.submit("greet", task_id="task-99")
        assert again.status == "pending"
        assert (await queue.counts())["pending"] == 2


async def test_the_metrics_of_the_document_and_their_thresholds(queue, store, clock):
    await queue.submit_many([("greet", number) for number in range(8)])
    for number, held in enumerate(await claim(store, 5)):
        await (complete(store, held) if number else fail(store, held, permanent=True))
    await claim(store, 1)
    stats = await queue.stats()
    assert {status: count for status, count in stats.counts.items() if count} == {
        "pending": 2, "running": 1, "completed": 4, "failed": 1,
    }  # fmt: skip
    clock.advance(2 * LEASE)
    assert (await queue.stats()).oldest_running_seconds == 2 * LEASE.total_seconds()
    assert (DEEP, LEASES, FAILED_SHARE) == (1000, 2, 0.05)
