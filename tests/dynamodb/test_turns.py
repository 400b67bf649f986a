"""The turns of an ordering key, when many change them at the same time."""

import asyncio

import pytest

from tenure.queue import Queue
from tenure.testing.conformance.steps import claim, claim_one, complete, ids


@pytest.fixture
def server(dynoxide):
    """One of the servers is enough here: what is tried happens on this side of the line."""
    return dynoxide


async def drained(store):
    """All tasks in the order in which they can be run, never two of the key at once."""
    order = []
    while held := await claim(store, 10):
        assert len(held) == 1, "two tasks of one key at once"
        await complete(store, held[0])
        order += held
    return order


async def test_of_many_first_submits_at_once_one_has_the_turn_and_the_others_follow(open_store):
    stores = [await open_store() for _ in range(5)]
    tasks = await asyncio.gather(
        *(Queue(stores[number % 5]).submit("greet", number, ordering_key="k") for number in range(15))
    )
    assert sorted(ids(await drained(stores[0]))) == sorted(ids(tasks))


async def test_a_task_submitted_while_the_last_one_ends_is_not_left_waiting(open_store):
    stores = [await open_store() for _ in range(3)]
    queue = Queue(stores[1])
    for number in range(15):
        await queue.submit("greet", number, ordering_key="k")
        held = await claim_one(stores[0])
        new, _ = await asyncio.gather(queue.submit("greet", ordering_key="k"), complete(stores[0], held))
        assert ids(await drained(stores[2])) == [new.id]


async def test_submits_one_after_the_other_on_machines_with_different_clocks_keep_their_order(open_store, clock):
    ahead, behind = await open_store(), await open_store()
    ahead._clock = lambda: clock().replace(year=2027)
    first = await Queue(ahead).submit("greet", 1, ordering_key="k", schedule_at=clock())
    second = await Queue(behind).submit("greet", 2, ordering_key="k")
    assert ids(await drained(behind)) == [first.id, second.id]


async def test_operators_and_workers_at_once_leave_nobody_waiting_for_ever(open_store):
    stores = [await open_store() for _ in range(4)]
    queues = [Queue(store) for store in stores]
    tasks = [await queues[0].submit("greet", number, ordering_key="k") for number in range(12)]
    held = await claim_one(stores[0])
    await asyncio.gather(
        complete(stores[0], held),
        *(queues[number % 4].cancel(task.id) for number, task in enumerate(tasks[1:]) if number % 2),
    )
    await asyncio.gather(*(queues[number % 4].retry(task.id) for number, task in enumerate(tasks[1:]) if number % 2))
    assert ids(await drained(stores[1])) == ids(tasks[1:])


async def test_nothing_is_left_of_a_key_whose_tasks_have_ended(store, queue):
    for number in range(3):
        await queue.submit("greet", number, ordering_key="k")
    await drained(store)
    assert await store.table.partition(store._known.keys.order("k")) == []


async def damage(store, task):
    await store.table.write(store.table.update(store._known.keys.task(task.id), {"record": "{ not JSON"}))


@pytest.mark.parametrize("bad", [{0}, {1}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {3}, {0, 1, 2, 3}])
async def test_damaged_tasks_of_a_key_let_the_others_go_wherever_they_stand(store, bad):
    queue = Queue(store)
    tasks = [await queue.submit("greet", number, ordering_key="k") for number in range(4)]
    for number in bad:
        await damage(store, tasks[number])
    order = []
    for _ in range(10):
        order += await drained(store)
    good = [task.id for number, task in enumerate(tasks) if number not in bad]
    assert ids(order) == good
    assert {note.key for note in await store.notes("damaged")} == {tasks[number].id for number in bad}
    after = await queue.submit("greet", "after", ordering_key="k")
    assert ids(await claim(store, 5)) == [after.id]


async def test_a_running_task_whose_followers_are_damaged_lapses_and_runs_again(store, clock):
    queue = Queue(store)
    tasks = [await queue.submit("greet", number, ordering_key="k") for number in range(3)]
    await claim_one(store)
    await damage(store, tasks[1])
    clock.advance(31)
    assert ids(await drained(store)) == [tasks[0].id, tasks[2].id]
