"""Claims go round the shards, ask further ones while there is room, and wait for none that hangs."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from shard_steps import counted, in_memory, recorded, text_in

from tenure import Worker
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore, claiming
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import claim, claim_one, complete, everything, ids, want
from tenure.testing.faults import Fault, FaultyStore


async def shards_of(store, tasks):
    return Counter(store.part_of(task).number for task in tasks)


async def test_each_claim_begins_at_the_next_shard(clock):
    queue = await in_memory(4, clock)
    await queue.submit_many([("greet", number) for number in range(200)])
    order = [queue.store.part_of(await claim_one(queue.store)).number for _ in range(12)]
    assert order[:4] == order[4:8] == order[8:]
    assert sorted(order[:4]) == [0, 1, 2, 3]


async def test_a_busy_shard_starves_no_other(clock):
    queue = await in_memory(2, clock)
    busy = [{"ordering_key": None, "task_id": text_in(queue.store, 0, f"b{number}")} for number in range(300)]
    await queue.submit_many([("greet", None, options) for options in busy], priority=100)
    lone = await queue.submit("greet", task_id=text_in(queue.store, 1, "lone"), priority=-100)
    first, second = await claim(queue.store, 5), await claim(queue.store, 5)
    assert lone.id in ids([*first, *second])
    assert [task.priority for task in (*first, *second)].count(100) == 9


async def test_further_shards_are_asked_while_there_is_room_and_no_more_is_taken(clock):
    queue = await in_memory(4, clock)
    await queue.submit_many([("greet", number) for number in range(40)])
    assert len(await claim(queue.store, 25)) == 25
    assert len(await claim(queue.store, 25)) == 15
    assert await claim(queue.store, 25) == []


async def test_tasks_that_are_claimed_together_come_in_their_order(clock):
    queue = await in_memory(4, clock)
    await queue.submit_many([("greet", number, {"priority": number % 7}) for number in range(50)])
    held = await claim(queue.store, 50)
    assert [(-task.priority, task.input) for task in held] == sorted((-task.priority, task.input) for task in held)


async def test_the_next_due_task_of_any_shard_is_told(clock):
    queue = await in_memory(3, clock)
    await queue.submit_many([("greet", None, {"delay": 10 + number}) for number in range(20)])
    soonest = await queue.submit("greet", delay=5)
    assert (await queue.store.claim(want(1))).next_due == soonest.available_at


async def test_a_pause_holds_in_every_shard(clock):
    queue = await in_memory(4, clock)
    await queue.submit_many([("greet", number) for number in range(40)])
    await queue.pause("default", "holiday")
    assert await claim(queue.store, 40) == []
    await queue.resume("default")
    assert len(await claim(queue.store, 40)) == 40


class Hanging(MemoryStore):
    """Answers claims when it is allowed to."""

    def __init__(self, clock):
        super().__init__(clock)
        self.answers = asyncio.Event()
        self.answers.set()

    async def claim(self, want):
        claimed = await super().claim(want)
        await self.answers.wait()
        return claimed


@pytest.fixture
async def hanging(clock, monkeypatch):
    monkeypatch.setattr(claiming, "PATIENCE", 0.05)
    stores = [Hanging(clock), MemoryStore(clock)]
    store = ShardedStore.of(stores)
    await store.open()
    queue = Queue(store)
    await queue.submit_many([("greet", number) for number in range(20)])
    return queue, stores[0]


async def test_a_shard_that_hangs_holds_up_no_other(hanging, caplog):
    queue, hangs = hanging
    hangs.answers.clear()
    theirs, others = await counted(queue.store)
    with recorded(caplog) as lines:
        held = []
        for _ in range(4):
            held += await claim(queue.store, 20)
    assert len(held) == others
    assert len([line for line in lines if "queue-group-0" in line and "its tasks wait" in line]) == 1
    assert {task.status for task in await everything(queue.store.shards[0])} == {TaskStatus.Running}
    hangs.answers.set()
    await settled(lambda: not queue.store._claims._late)
    released = await everything(queue.store.shards[0])
    assert {(task.status, task.attempts) for task in released} == {(TaskStatus.Pending, 0)}
    assert len(released) == theirs


async def settled(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


async def test_a_claim_whose_answer_was_lost_is_given_back_once_the_shard_is_there_again(clock):
    faulty = FaultyStore(MemoryStore(clock), plan=[Fault("claim", "after", nth=1)])
    store = ShardedStore.of([faulty, MemoryStore(clock)])
    await store.open()
    queue = Queue(store)
    tasks = await queue.submit_many([("greet", number) for number in range(20)])
    worker = Worker(queue, concurrency=50, poll=0.01, lease=timedelta(seconds=30))
    ran = []

    @worker.task("greet")
    async def greet(input):
        ran.append(input)
        if len(ran) == len(tasks):
            worker.stop()

    async with asyncio.timeout(30):
        await worker.run()
    assert sorted(ran) == list(range(20))
    stored = await everything(store)
    assert {(task.status, task.attempts) for task in stored} == {(TaskStatus.Completed, 0)}
    assert any(event.what == "released" for task in stored for event in task.history)


async def test_the_lease_of_a_task_is_renewed_wherever_it_is_kept(clock):
    queue = await in_memory(3, clock)
    other = ShardedStore.of([shard.store for shard in queue.store.shards])
    await other.open()
    store = queue.store
    await queue.submit("greet", task_id=text_in(store, 0, "id"), ordering_key=text_in(store, 1))
    held = await claim_one(store)
    from tenure.testing.conformance.steps import renew

    for each in (store, other):
        clock.advance(20)
        assert (await renew(each, held)).value == "held"
    assert (await complete(other, held)).status is TaskStatus.Completed
    assert (await renew(store, held)).value == "lost"
