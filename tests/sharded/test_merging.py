"""Listings, counts and notes of all shards are one."""

import pytest
from shard_steps import counted, in_memory

from tenure.errors import InvalidInput
from tenure.stores.base import Query
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import MICROSECOND, claim, complete, ids

LIMITS = [1, 2, 3, 7, 50]


@pytest.fixture
async def queue(clock):
    return await in_memory(4, clock)


async def submitted(queue, clock, count=40, **options):
    tasks = []
    for number in range(count):
        clock.advance(MICROSECOND)
        tasks.append(await queue.submit("greet", number, **options))
    return tasks


async def pages(queue, limit, between=None, **filters):
    found, cursor = [], None
    while True:
        page = await queue.store.find(Query(limit=limit, cursor=cursor, **filters))
        assert len(page.tasks) <= limit
        found += page.tasks
        if (cursor := page.cursor) is None:
            return found
        if between is not None:
            await between()


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("oldest", [True, False])
async def test_pages_hold_everything_once_in_one_order(queue, clock, limit, oldest):
    tasks = await submitted(queue, clock)
    assert all(await counted(queue.store))
    found = await pages(queue, limit, oldest=oldest)
    assert ids(found) == ids(tasks if oldest else reversed(tasks))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("oldest", [True, False])
async def test_tasks_of_one_moment_whose_ids_say_nothing_of_their_order_are_all_listed_once(queue, limit, oldest):
    batch = [
        ("greet", None, {"task_id": f"{'zak'[number % 3]}-{number}"} if number % 4 else {}) for number in range(60)
    ]
    tasks = await queue.submit_many(batch)
    assert sorted(ids(await pages(queue, limit, oldest=oldest))) == sorted(ids(tasks))


@pytest.mark.parametrize("limit", LIMITS)
async def test_ended_tasks_come_by_their_end_over_all_shards(queue, clock, limit):
    await submitted(queue, clock)
    ended = []
    for held in await claim(queue.store, 40):
        clock.advance(MICROSECOND)
        ended.append(await complete(queue.store, held))
    assert ids(await pages(queue, limit, status=TaskStatus.Completed)) == ids(reversed(ended))


@pytest.mark.parametrize("limit", LIMITS[:4])
async def test_a_cursor_stays_valid_while_tasks_come_in_every_shard(queue, clock, limit):
    tasks = await submitted(queue, clock)

    async def more():
        await submitted(queue, clock, 3)

    assert ids(await pages(queue, limit, more)) == ids(reversed(tasks))


@pytest.mark.parametrize("limit", LIMITS[:4])
async def test_a_walk_from_the_oldest_meets_what_comes_meanwhile(queue, clock, limit):
    tasks = await submitted(queue, clock, 12)
    late = []

    async def some_more():
        if len(late) < 12:
            late.extend(await submitted(queue, clock, 3))

    assert ids(await pages(queue, limit, some_more, oldest=True)) == ids([*tasks, *late])


@pytest.mark.parametrize("limit", LIMITS[:4])
async def test_a_cursor_stays_valid_while_tasks_go(queue, clock, limit):
    tasks = await submitted(queue, clock)
    left = {task.id: task for task in tasks}

    async def fewer():
        # Also the very ones that the cursor stands on.
        for task_id in list(left)[:1] + list(left)[-2:]:
            gone = await queue.cancel(task_id)
            await queue.store.forget([gone], clock())
            del left[task_id]

    found = ids(await pages(queue, limit, fewer))
    assert found == sorted(set(found), reverse=True), "out of order, or twice"
    assert set(left) <= set(found)


@pytest.mark.parametrize("cursor", ["nonsense", "{}", '{"shards":[{}]}', '{"shards":[{"begin":"x"},{},{},{}]}'])
async def test_a_cursor_of_another_listing_is_refused(queue, clock, cursor):
    await submitted(queue, clock, 8)
    with pytest.raises(InvalidInput, match="cursor"):
        await queue.store.find(Query(cursor=cursor))


async def test_counts_and_stats_are_of_all_shards(queue, clock):
    await submitted(queue, clock)
    for held in await claim(queue.store, 10):
        await complete(queue.store, held)
    assert (await queue.counts())[TaskStatus.Pending] == 30
    stats = await queue.stats()
    assert stats.types == {"greet": {"pending": 30, "completed": 10}}


async def test_what_is_longest_overdue_comes_first_over_all_shards(queue, clock):
    for number in range(20):
        await queue.submit("greet", number, ttl=20 - number)
    clock.advance(60)
    late = await queue.store.overdue(clock(), 12)
    assert [task.input for task in late] == list(range(19, 7, -1))


async def test_pruning_is_bounded_over_all_shards_and_leaves_none_out(queue, clock):
    await submitted(queue, clock)
    for held in await claim(queue.store, 40):
        await complete(queue.store, held)
    clock.advance(1)
    forgotten = []
    while some := await queue.store.prune({TaskStatus.Completed: clock()}, clock(), 7):
        forgotten.append(some)
    assert sum(forgotten) == 40
    assert max(forgotten) <= 7


async def test_a_dump_has_all_tasks_in_submit_order(queue, clock):
    tasks = await submitted(queue, clock)
    for limit in (1, 3, 100):
        pieces = [await queue.store.dump(limit=limit)]
        while (cursor := pieces[-1].cursor) is not None:
            pieces.append(await queue.store.dump(cursor, limit))
        assert ids(task for piece in pieces for task in piece.tasks) == ids(tasks)
