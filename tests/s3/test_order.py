"""Which task comes first when there are more segments than a listing shows, and what is looked at for it."""

from datetime import timedelta

import pytest

from tenure.queue import Queue
from tenure.stores.s3 import packing
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import in_parallel
from tenure.submission import build
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import ask, brought_to, claim, complete, everything, ids

HOUR = timedelta(hours=1)


async def crowd(store, clock, count=1100, **options):
    """Lone tasks of a type that nobody wants, more than one listing shows."""
    tasks = [build("foreign", None, options, clock(), 1000).task for _ in range(count)]
    names = [store._known.placing.names_of([task], clock())[0] for task in tasks]
    segments = [
        Segment(name, "", {task.id: Entry(number, task)})
        for number, (name, task) in enumerate(zip(names, tasks, strict=True))
    ]
    await in_parallel(store.writer.create, segments)


async def test_a_runnable_task_behind_more_segments_than_a_page_is_found(open_store, clock):
    store, stranger = await open_store(), await open_store()
    await crowd(store, clock)
    urgent = await Queue(store).submit("greet", priority=5)
    patient = await Queue(store).submit("greet", priority=-5)
    ordered = await Queue(store).submit("greet", ordering_key="k")
    later = await Queue(store).submit("greet", delay=3600)
    stranger.client.counts.clear()
    assert ids(await claim(stranger, 1)) == [urgent.id]
    # The first page, and one for ordering keys and what has waited long.
    assert stranger.client.counts["LIST"] == 2
    assert stranger.client.counts["GET"] < 100
    assert ids(await claim(stranger, 10)) == [ordered.id, patient.id]
    clock.advance(HOUR)
    assert set(ids(await claim(await open_store(), 10))) == {urgent.id, ordered.id, patient.id, later.id}


async def test_the_deadline_of_a_task_that_nobody_polls_is_seen_by_its_name(open_store, clock):
    store = await open_store()
    await Queue(store).submit_many([("greet", number) for number in range(20)], delay=7200)
    for _ in range(5):
        await Queue(store).submit("greet", delay=7200)
    late = await Queue(store).submit("greet", delay=7200, ttl=3600)
    clock.advance(HOUR)
    stranger = await open_store()
    assert ids(await Sweeper(stranger).sweep()) == [late.id]
    assert {kind: stranger.client.counts[kind] for kind in ("LIST", "GET", "PUT")} == {"LIST": 1, "GET": 1, "PUT": 1}
    assert (await stranger.get([late.id]))[0].status is TaskStatus.Expired


async def test_tasks_that_two_producers_gave_one_number_are_settled_together(open_store, clock):
    tasks = [await Queue(await open_store()).submit("greet", ttl=10) for _ in range(4)]
    clock.advance(10)
    answer = await ask(await open_store(), 1)
    assert [(task.id, task.status) for task in answer.overdue] == [
        (task_id, TaskStatus.Expired) for task_id in sorted(ids(tasks))
    ]


async def test_retention_reads_no_more_packs_than_it_empties(open_store, clock, monkeypatch):
    monkeypatch.setattr(packing, "PACK", 2)
    monkeypatch.setattr("tenure.stores.s3.packs.NEWS", 1)
    store = await open_store()
    queue = Queue(store)
    tasks = []
    for _ in range(24):
        tasks.append(await brought_to(queue, "completed"))
        clock.advance(1)
    await store._packing.tidy(0)
    assert len(await store.bucket.names("done/")) == 12
    await store.count()
    stranger = await open_store()
    assert await stranger.prune({TaskStatus.Completed: clock()}, clock(), 3) == 3
    assert stranger.client.counts["GET"] <= 8
    assert stranger.client.counts["LIST"] <= 8
    assert sorted(ids(await everything(store))) == sorted(ids(tasks[3:]))
    assert len(await store.bucket.names("done/")) == 11


async def test_counts_of_a_hundred_packs_are_read_without_reading_them(open_store, monkeypatch):
    monkeypatch.setattr(packing, "PACK", 1)
    store = await open_store()
    await Queue(store).submit_many([("greet", number) for number in range(40)])
    for task in await claim(store, 40):
        await complete(store, task)
    for task in await Queue(store).submit_many([("greet", number, {"priority": number}) for number in range(30)]):
        await Queue(store).cancel(task.id)
    await store._packing.tidy(0)
    expected = await store.count()
    assert sum(lane.count for lane in expected) == 70
    stranger = await open_store()
    assert await stranger.count() == expected
    assert stranger.client.counts["GET"] <= 2
    assert stranger.client.counts["LIST"] == 2


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_page_of_ended_tasks_reads_only_the_packs_that_it_shows(open_store, clock, monkeypatch, status):
    monkeypatch.setattr(packing, "PACK", 2)
    monkeypatch.setattr("tenure.stores.s3.packs.NEWS", 1)
    store = await open_store()
    tasks = []
    for _ in range(20):
        tasks.append(await brought_to(Queue(store), status))
        clock.advance(1)
    await store._packing.tidy(0)
    await store.count()
    stranger = await open_store()
    page = await Queue(stranger).list(status, limit=3)
    assert ids(page.tasks) == ids(reversed(tasks[-3:]))
    assert stranger.client.counts["GET"] <= 4
