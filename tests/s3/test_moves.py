"""Tasks that change their object: whoever dies when, each stays in the queue exactly once."""

import asyncio
from datetime import timedelta

import pytest
from lines import dies_at

from tenure.errors import StoreUnavailable
from tenure.queue import Queue
from tenure.stores.s3 import packing
from tenure.stores.s3.names import is_later
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import SECOND, brought_to, claim, complete, everything, ids, read, reschedule

HOUR = timedelta(hours=1)


async def names(store, folder="tasks/"):
    return [listed.name for listed in await store.bucket.names(folder)]


async def packed(queue, **options):
    """An ended task that has been tidied away."""
    task = await brought_to(queue, "failed", **options)
    await queue.store._packing.tidy(0)
    assert await names(queue.store) == []
    return task


async def test_a_task_that_waits_long_leaves_the_front_and_comes_back_in_time(queue, store, clock):
    task = await queue.submit("greet")
    (held,) = await claim(store)
    await reschedule(store, held, 3600)
    (name,) = await names(store)
    assert is_later(name)
    clock.advance(HOUR - SECOND)
    assert await claim(store) == []
    clock.advance(SECOND)
    assert ids(await claim(store)) == [task.id]


async def test_a_task_that_waits_shortly_stays_where_it_is(queue, store):
    await queue.submit("greet")
    before = await names(store)
    (held,) = await claim(store)
    await reschedule(store, held, 30)
    assert await names(store) == before


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_a_worker_that_dies_while_its_task_moves_leaves_it_once(open_store, clock, at, after):
    dying, other = await open_store(), await open_store()
    task = await Queue(dying).submit("greet", max_attempts=5)
    (held,) = await claim(dying)
    line = dies_at(dying, at, after=after)
    with pytest.raises(StoreUnavailable):
        await reschedule(dying, held, 3600)
    assert line.cut
    clock.advance(HOUR)
    (again,) = await claim(other, 10)
    assert again.id == task.id
    assert await claim(await open_store(), 10) == []
    await complete(other, again)
    clock.advance(HOUR)
    assert await claim(await open_store(), 10) == []
    assert ids(await everything(other)) == [task.id]


@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "ordered"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_an_operator_who_dies_while_retrying_a_packed_task_leaves_it_once(open_store, clock, at, after, key):
    other = await open_store()
    task = await packed(Queue(other), ordering_key=key)
    dying = await open_store()
    line = dies_at(dying, at, after=after)
    with pytest.raises(StoreUnavailable):
        await Queue(dying).retry(task.id)
    assert line.cut
    third = await open_store()
    listed = await everything(third)
    assert ids(listed) == [task.id]
    clock.advance(120)
    if listed[0].status is TaskStatus.Failed:
        await Queue(third).retry(task.id)
    (held,) = await claim(third, 10)
    await complete(third, held)
    assert await claim(await open_store(), 10) == []
    assert [each.status for each in await everything(other)] == ["completed"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 6))
async def test_a_tidying_that_dies_is_finished_by_the_next_one(open_store, clock, at, after):
    one, dying = await open_store(), await open_store()
    queue = Queue(one)
    ended = [await brought_to(queue, "completed") for _ in range(3)]
    ended.append(await brought_to(queue, "completed", ordering_key="k"))
    waiting = await queue.submit("greet", ordering_key="k", delay=5)
    assert len(await everything(dying)) == 5
    dying._packing.notice(await dying._shelves.everything())
    line = dies_at(dying, at, after=after)
    with pytest.raises(StoreUnavailable):
        await dying._packing.tidy(0)
    assert line.cut
    third = await open_store()
    assert sorted(ids(await everything(third))) == sorted(ids([*ended, waiting]))
    assert {lane.status: lane.count for lane in await third.count()} == {"completed": 4, "pending": 1}
    fourth = await open_store()
    more = await brought_to(Queue(fourth), "completed")
    fourth._packing.notice(await fourth._shelves.everything())
    await fourth._packing.tidy(0)
    assert sorted(ids(await everything(third))) == sorted(ids([*ended, waiting, more]))
    assert {lane.status: lane.count for lane in await third.count()} == {"completed": 5, "pending": 1}
    assert [await read(third, task.id) for task in ended] == ended


async def test_what_is_retried_while_it_is_tidied_away_stays_open(open_store, clock):
    one, other = await open_store(), await open_store()
    task = await brought_to(Queue(one), "failed")
    dies_at(one, 2, after=False)
    with pytest.raises(StoreUnavailable):
        await one._packing.tidy(0)
    await Queue(other).retry(task.id)
    third = await open_store()
    (held,) = await claim(third, 10)
    await complete(third, held)
    assert [each.status for each in await everything(await open_store())] == ["completed"]
    assert [lane.count for lane in await (await open_store()).count()] == [1]
    await Queue(third).purge(task.id)
    assert await everything(await open_store()) == []
    assert await (await open_store()).count() == []


async def test_two_tidyings_at_once_pack_everything_once(open_store):
    one, other = await open_store(), await open_store()
    tasks = [await brought_to(Queue(one), "completed") for _ in range(10)]
    await everything(other)
    other._packing.notice(await other._shelves.everything())
    await asyncio.gather(one._packing.tidy(0), other._packing.tidy(0))
    assert sorted(ids(await everything(one))) == sorted(ids(tasks))
    assert [lane.count for lane in await (await open_store()).count()] == [10]


async def test_an_archived_task_stays_readable_from_its_pack(queue, store, open_store):
    task = await packed(queue)
    await queue.archive(task.id)
    stored = await read(await open_store(), task.id)
    assert (stored.status, stored.input) == ("archived", {"for": "failed"})


async def test_an_ordering_key_with_many_ended_tasks_lets_them_go(queue, store, monkeypatch):
    monkeypatch.setattr(packing, "MANY_SEGMENTS", 5)
    tasks = await queue.submit_many([("greet", number) for number in range(12)], ordering_key="k")
    for _ in range(8):
        (held,) = await claim(store, 10)
        await complete(store, held)
    while store._tidying:
        await asyncio.wait(store._tidying)
    (lane,) = await names(store)
    held = await store.writer.read(lane)
    assert len(held.entries) < 12
    assert sorted(ids(await everything(store))) == sorted(ids(tasks))
    assert [task.input for task in await claim(store, 10)] == [8]


async def test_a_full_pack_is_closed_and_the_next_one_begun(queue, store, monkeypatch):
    monkeypatch.setattr(packing, "PACK", 4)
    tasks = [await brought_to(queue, "completed") for _ in range(10)]
    await store._packing.tidy(0)
    assert await names(store, "done/") == [f"done/000/{number:08d}.json" for number in (1, 2, 3)]
    assert sorted(ids(await everything(store))) == sorted(ids(tasks))
