"""What a poll finds, how shards are searched, and what a stale index can and cannot do."""

import asyncio

import pytest

from tenure.queue import Queue
from tenure.stores.base import Renewal, Want
from tenure.stores.dynamodb.keys import DUE, TIME, Lane
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import LEASE, ask, brought_to, claim, claim_one, complete, everything, ids


async def test_the_limit_of_a_poll_counts_runnable_tasks_only(store, queue, clock):
    for _ in range(30):
        await brought_to(queue, "completed")
    await queue.submit_many([("greet", "running") for _ in range(30)])
    await claim(store, 30)
    await queue.submit_many([("greet", "later") for _ in range(30)], delay=60)
    due = await queue.submit_many([("greet", number) for number in range(30)])
    assert ids(await claim(store, 25)) == ids(due[:25])
    assert ids(await claim(store, 25)) == ids(due[25:])


async def test_a_poll_reads_no_more_than_it_takes(store, queue):
    """However many have ended or are due later, a claim of one reads the same."""

    async def units():
        store.table.units.clear()
        assert len(await claim(store)) == 1
        return dict(store.table.units)

    await queue.submit_many([("greet", None)] * 3)
    before = await units()
    for held in await claim(store, 2):
        await complete(store, held)
    for _ in range(20):
        await queue.submit_many([("greet", "later")] * 90, delay=60)
    await queue.submit("greet")
    assert await units() == before


@pytest.fixture
def slow(line, clock):
    """From a call on, every request takes so long."""

    def begin(request):
        line.plan = line.transport.plan = lambda *_: clock.advance(request)

    return begin


async def test_a_lease_counts_from_the_moment_its_task_is_taken_however_long_the_search_took(store, queue, clock, slow):
    await queue.submit("greet")
    slow(LEASE / 2)
    (held,) = await claim(store)
    assert held.lease_expires_at - clock() == LEASE / 2


async def test_what_was_taken_is_not_kept_waiting_while_more_is_searched_for(store, queue, clock, slow):
    for priority in (3, 2, 1):
        await queue.submit("greet", priority, priority=priority)
    slow(LEASE / 2)
    (held,) = await claim(store, 3)
    assert (held.priority, held.lease_expires_at > clock()) == (3, True)


@pytest.fixture
def stale_index(store, monkeypatch):
    """Lets an index answer as it was at an earlier moment, which DynamoDB may do."""
    walk, remembered = store.table.walk, {}

    def freeze(index):
        async def frozen(pk, **how):
            if how.get("index") != index:
                async for page in walk(pk, **how):
                    yield page
                return
            if pk not in remembered:
                remembered[pk] = [page async for page in walk(pk, **how)]
            for page in remembered[pk]:
                yield page

        monkeypatch.setattr(store.table, "walk", frozen)

    def thaw():
        remembered.clear()
        monkeypatch.setattr(store.table, "walk", walk)

    freeze.thaw = thaw
    return freeze


async def test_an_index_that_still_shows_what_was_taken_gives_nothing_twice(store, queue, stale_index):
    task = await queue.submit("greet")
    stale_index(DUE)
    held = await claim_one(store)
    assert held.id == task.id
    assert await claim(store, by="w2") == []
    await complete(store, held)
    assert await claim(store, by="w2") == []
    assert [task.status for task in await everything(store)] == [TaskStatus.Completed]


async def test_an_index_that_does_not_show_a_task_yet_only_delays_it(store, queue, stale_index):
    await queue.submit("greet", 0)
    stale_index(DUE)
    await claim_one(store)
    late = await queue.submit("greet", 1)
    assert await claim(store) == []
    stale_index.thaw()
    assert ids(await claim(store)) == [late.id]


async def test_a_stale_index_never_lets_two_of_one_ordering_key_run(store, queue, stale_index, clock):
    first, second = [await queue.submit("greet", number, ordering_key="k") for number in range(2)]
    stale_index(DUE)
    held = await claim_one(store)
    assert held.id == first.id
    assert await claim(store, 5, by="w2") == []
    await complete(store, held)
    stale_index.thaw()
    stale_index(DUE)
    (other,) = await claim(store, 5, by="w2")
    assert other.id == second.id
    assert await claim(store, 5, by="w3") == []


async def test_a_lease_that_was_renewed_since_the_index_looked_does_not_lapse(store, queue, stale_index, clock):
    await queue.submit("greet")
    held = await claim_one(store)
    clock.advance(LEASE)
    stale_index(TIME)
    assert await store.overdue(clock(), 10) == [held]
    await store.renew([Renewal(held.id, held.fence, LEASE)])
    assert await store.overdue(clock(), 10) == []
    assert (await ask(store, by="w2")).overdue == []


async def test_a_task_that_was_claimed_since_the_index_looked_is_no_late_pending_one(store, queue, stale_index, clock):
    task = await queue.submit("greet", ttl=LEASE * 2)
    soon = clock() + LEASE * 2
    stale_index(TIME)
    assert await store.overdue(soon, 10, TaskStatus.Pending) == [task]
    await claim_one(store)
    assert await store.overdue(soon, 10, TaskStatus.Pending) == []
    assert await store.count_overdue(soon, 10, TaskStatus.Pending) == {}


async def test_shards_spread_tasks_over_partitions_and_every_task_is_found(open_store, clock):
    store = await open_store(shards=4)
    queue = Queue(store)
    tasks = await queue.submit_many([("greet", number) for number in range(60)])
    keys = store._known.keys
    entries = [
        await store.table.partition(keys.due(Lane("default", "greet", 0), shard), index=DUE) for shard in range(4)
    ]
    assert all(len(shard) > 3 for shard in entries)
    assert sum(map(len, entries)) == 60
    found = []
    while held := await claim(store, 7):
        found += ids(held)
    assert sorted(found) == sorted(ids(tasks))
    assert ids(await everything(store)) == ids(reversed(tasks))
    clock.advance(LEASE)
    assert len(await store.overdue(clock(), 1000)) == 60


async def test_workers_rotate_over_the_shards(open_store):
    store = await open_store(shards=4)
    queue = Queue(store)
    await queue.submit_many([("greet", number) for number in range(80)])
    taken_from = {store._known.keys.shard((await claim_one(store)).id) for _ in range(4)}
    assert taken_from == {0, 1, 2, 3}


async def test_a_higher_priority_goes_first_over_all_shards(open_store):
    store = await open_store(shards=4)
    queue = Queue(store)
    await queue.submit_many([("greet", "low") for _ in range(40)])
    await queue.submit_many([("greet", "high") for _ in range(5)], priority=1)
    assert [task.input for task in await claim(store, 5)] == ["high"] * 5


async def test_a_new_lane_is_found_by_workers_that_run_already(store, open_store):
    other = await open_store()
    assert await claim(other) == []
    for options in ({}, {"priority": 7}, {"queue": "mail"}):
        task = await Queue(store).submit("greet", **options)
        assert ids(await claim(other, queues=["default", "mail"])) == [task.id]


async def test_a_lane_that_nobody_used_for_days_is_struck_off_and_comes_back_when_it_is_used(store, queue, clock):
    await brought_to(queue, "completed", priority=5)
    await queue.submit("greet", "waits", priority=6, delay=10 * 86_400)
    clock.advance(3 * 86_400)
    await store.prune({}, clock(), 10)
    lanes = await store._known.lanes.wanted(Want("w", ("default",), {"greet": 1}, 1, LEASE), ())
    assert list(lanes) == [6]
    task = await queue.submit("greet", priority=5)
    assert ids(await claim(store)) == [task.id]


async def test_a_process_remembers_only_the_lanes_that_it_used_lately(store, queue, clock):
    for priority in range(5):
        await queue.submit("greet", priority=priority)
        clock.advance(1800)
    assert {lane.priority for lane in store._known.lanes._written} == {3, 4}


async def test_many_workers_drain_a_backlog_and_each_task_is_claimed_once(open_store):
    stores = [await open_store() for _ in range(4)]
    tasks = await Queue(stores[0]).submit_many([("greet", number) for number in range(100)])
    held: list = []

    async def work(number):
        while taken := await claim(stores[number % 4], 5, by=f"w{number}"):
            held.extend(taken)

    await asyncio.gather(*(work(number) for number in range(8)))
    assert sorted(ids(held)) == sorted(ids(tasks))
    assert {task.fence for task in held} == {1}
