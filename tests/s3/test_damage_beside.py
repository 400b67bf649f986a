"""What stands beside the tasks and cannot be read: keys, ids, notes, pauses, summaries, the layout."""

import pytest
from damaging import only, rewrite

from tenure import DamagedRecord, StoreUnusable
from tenure.queue import Queue
from tenure.stores.base import Note
from tenure.stores.s3.names import id_name
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import brought_to, claim, ids
from tenure.testing.s3 import prepare


async def test_summaries_that_cannot_be_read_or_make_no_sense_are_made_again(open_store):
    store = await open_store()
    await brought_to(Queue(store), "completed")
    await store._packing.tidy(0)
    await store._packs.all()
    await store._packs._write_down(0, {"done/000/00000001.json"})
    for change in (_without_endings, lambda _: {"packs": 5}, lambda _: b"{"):
        await rewrite(store, "summaries/000.json", change)
        queue = Queue(await open_store())
        assert len((await queue.list(status="completed")).tasks) == 1
        assert (await queue.counts())[TaskStatus.Completed] == 1


def _without_endings(body):
    for each in body["packs"].values():
        each["ended"] = {}
    return body


async def test_pauses_that_cannot_be_read_hold_up_nobody_and_can_be_made_again(open_store):
    store = await open_store()
    queue = Queue(store)
    task = await queue.submit("greet")
    await queue.pause("default")
    await rewrite(store, "tasks/000/-pause.json", lambda _: b"{")
    other = await open_store()
    assert await Queue(other).paused() == {}
    await Queue(other).pause("other")
    assert set(await Queue(other).paused()) == {"other"}
    assert ids(await claim(other)) == [task.id]


async def test_pauses_are_taken_from_their_copies_when_the_first_is_damaged(open_store, seaweedfs):
    store = await open_store(url=prepare(seaweedfs, "tests", "damaged-pauses", shards=3))
    await Queue(store).pause("one")
    await rewrite(store, "tasks/000/-pause.json", lambda _: b"{")
    await Queue(store).pause("two")
    assert set(await Queue(store).paused()) == {"one", "two"}


@pytest.mark.parametrize("until", [5, "soon", ["never"], "2020-01-01"])
async def test_a_pause_until_nobody_knows_when_is_a_pause(store, until):
    await Queue(store).submit("greet")
    await store.put_note(Note("pause", "default", {"until": until}))
    assert bool(await claim(store)) is (until == "2020-01-01")


async def test_a_note_that_cannot_be_read_counts_for_nothing_and_is_written_over(open_store):
    store = await open_store()
    await store.put_note(Note("kind", "a", {"n": 1}))
    await rewrite(store, await only(store, "notes/"), lambda _: b"{")
    other = await open_store()
    assert await other.notes("kind") == []
    assert await other.put_note(Note("kind", "a", {"n": 2}))
    assert [note.value for note in await (await open_store()).notes("kind")] == [{"n": 2}]


async def test_a_worker_that_left_nonsense_is_no_worker(queue, store):
    await store.put_note(Note("worker", "w", {"id": 5, "host": []}))
    assert await queue.workers(gone=True) == []


@pytest.mark.parametrize("folder", ["idempotency/", "ids/"])
async def test_a_damaged_record_of_a_key_or_an_id_is_told_and_stays(open_store, clock, folder):
    store = await open_store()
    task = await Queue(store).submit("greet", 1, idempotency_key="k", task_id="mine", idempotency_ttl=60)
    body = await rewrite(store, name := await only(store, folder), lambda _: b'{"format": 1')
    other = await open_store()
    queue = Queue(other)
    with pytest.raises(DamagedRecord):
        await queue.submit("greet", 1, idempotency_key="k" if folder == "idempotency/" else None, task_id="mine")
    assert (await queue.get(task.id)).id == task.id
    piece = await other.dump()
    damaged = list(piece.damaged)
    while piece.cursor is not None:
        piece = await other.dump(piece.cursor)
        damaged += piece.damaged
    assert damaged == [name]
    clock.advance(3600)
    await Sweeper(other).prune()
    assert (await other.bucket.read(name)).body == body
    assert (await queue.stats()).damaged == 1


async def test_a_forgotten_task_takes_the_damaged_record_of_its_id_along(open_store, clock):
    store = await open_store()
    await brought_to(Queue(store), "completed", task_id="mine", idempotency_ttl=1)
    await rewrite(store, id_name("mine"), lambda _: b"{")
    clock.advance(40 * 86400)
    assert await Sweeper(await open_store(), {"completed": 0}).prune() == 1
    assert await store.bucket.names("ids/") == []


@pytest.mark.parametrize("place", ["tenure.json", "../other", "", "tasks/000/x.json"])
async def test_a_record_that_leads_nowhere_is_not_followed(open_store, place):
    store = await open_store()
    await Queue(store).submit("greet", 1, idempotency_key="k")
    await rewrite(
        store, await only(store, "idempotency/"), lambda body: body | {"task_key": place, "state": "creating"}
    )
    for listed in await store.bucket.names("tasks/"):
        await store.bucket.delete(listed.name, listed.etag)
    other = await open_store()
    if place:
        with pytest.raises(DamagedRecord):
            await Queue(other).submit("greet", 1, idempotency_key="k")
    else:
        task = await Queue(other).submit("greet", 1, idempotency_key="k")
        assert ids(await claim(other)) == [task.id]


@pytest.mark.parametrize("shards", [0, -1, 10**9, "3", None])
async def test_a_layout_that_cannot_be_is_refused(open_store, shards):
    store = await open_store()
    await rewrite(store, "tenure.json", lambda body: body | {"shards": shards})
    with pytest.raises(StoreUnusable, match=r"tenure.json cannot be read"):
        await open_store()
