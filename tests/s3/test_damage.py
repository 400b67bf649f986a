"""What cannot be read stays as it is, is told, and holds up nobody."""

import asyncio
import json

import pytest
from damaging import only, rewrite, with_task
from lines import trouble

from tenure import DamagedRecord, Worker
from tenure.queue import Queue
from tenure.sweeper import Sweeper
from tenure.task import FORMAT, TaskStatus
from tenure.testing.aws import Fault
from tenure.testing.conformance.steps import brought_to, claim, claim_one, complete, everything, ids


async def test_a_damaged_record_holds_up_no_other_of_its_batch_and_stays_as_it_is(open_store):
    store = await open_store()
    tasks = await Queue(store).submit_many([("greet", number) for number in range(3)])
    name = await only(store, "tasks/")
    await rewrite(store, name, with_task(1, status="asleep"))
    other = await open_store()
    queue = Queue(other)
    held = await claim(other, 10)
    assert ids(held) == [tasks[0].id, tasks[2].id]
    for task in held:
        await complete(other, task)
    assert (await queue.counts())[TaskStatus.Completed] == 2
    assert (await queue.stats()).damaged == 1
    with pytest.raises(DamagedRecord, match=tasks[1].id):
        await queue.get(tasks[1].id)
    await other._packing.tidy(0)
    entries = json.loads((await other.bucket.read(name)).body)["tasks"]
    assert "asleep" in [entry["task"].get("status") for entry in entries]


async def test_a_damaged_head_lets_the_next_of_its_key_go(open_store):
    store = await open_store()
    first, second = [await Queue(store).submit("greet", number, ordering_key="k") for number in range(2)]
    await rewrite(store, await only(store, "tasks/"), with_task(0, history=5))
    assert ids(await claim(store, 10)) == [second.id]
    third = await Queue(store).submit("greet", 3, ordering_key="k")
    await complete(store, await Queue(store).get(second.id))
    assert ids(await claim(store, 10)) == [third.id]
    assert (await store.dump()).damaged == [first.id]


async def test_a_record_of_a_newer_format_is_not_written_over(open_store):
    store = await open_store()
    await Queue(store).submit_many([("greet", number) for number in range(2)])
    await rewrite(store, name := await only(store, "tasks/"), with_task(0, format=FORMAT + 1, shape="new"))
    other = await open_store()
    await complete(other, await claim_one(other))
    assert await claim(other) == []
    entries = json.loads((await other.bucket.read(name)).body)["tasks"]
    assert [entry["task"]["shape"] for entry in entries if entry["task"]["format"] > FORMAT] == ["new"]


async def test_what_a_newer_version_says_of_an_object_stays_with_it(open_store):
    store = await open_store()
    await Queue(store).submit("greet")
    await rewrite(store, name := await only(store, "tasks/"), lambda body: body | {"colour": {"of": "the box"}})
    other = await open_store()
    await complete(other, await claim_one(other))
    assert json.loads((await other.bucket.read(name)).body)["colour"] == {"of": "the box"}


@pytest.mark.parametrize("body", [b"", b"{", b'{"format": 1', b"\xff\xfe", b"[" * 5000, b"null", b"{}"])
async def test_an_object_that_nobody_can_read_is_not_taken_for_a_server_in_trouble(open_store, body):
    store = await open_store()
    lost = await Queue(store).submit("greet", "lost")
    await rewrite(store, name := await only(store, "tasks/"), lambda _: body)
    other = await open_store()
    queue, ran = Queue(other), []
    kept = await queue.submit("greet", "kept")
    worker = Worker(queue)

    @worker.task("greet")
    async def greet(input, context):
        ran.append(context.task.id)

    await worker.run(until_idle=True)
    assert ran == [kept.id]
    assert (await queue.stats()).damaged == 1
    assert (await other.bucket.read(name)).body == body
    with pytest.raises(DamagedRecord, match=lost.id):
        await queue.get(lost.id)


async def test_a_damaged_object_is_read_once_and_again_when_it_was_mended(open_store):
    store = await open_store()
    task = await Queue(store).submit("greet")
    name = await only(store, "tasks/")
    good = (await store.bucket.read(name)).body
    await rewrite(store, name, lambda _: b"{}")
    other = await open_store()
    assert await claim(other) == []
    assert (await Queue(other).stats()).damaged == 1
    other.client.counts.clear()
    assert await claim(other) == []
    assert other.client.counts["GET"] == 0
    await rewrite(store, name, lambda _: good)
    assert ids(await claim(other)) == [task.id]
    assert (await Queue(other).stats()).damaged == 0


async def test_a_task_that_cannot_be_read_is_not_submitted_a_second_time(open_store):
    store = await open_store()
    options = [{"idempotency_key": "k"}, {"task_id": "mine"}, {"slot": ("daily", "2026-01-28")}]
    for each in options:
        await Queue(store).submit("greet", 1, **each)
    for listed in await store.bucket.names("tasks/"):
        await rewrite(store, listed.name, lambda _: b"{")
    for each in options:
        with pytest.raises(DamagedRecord):
            await Queue(await open_store()).submit("greet", 1, **each)
    assert len(await store.bucket.names("tasks/")) == len(options)


async def test_a_damaged_pack_holds_up_neither_counts_nor_tidying_nor_pruning(open_store, clock):
    store = await open_store()
    await brought_to(Queue(store), "completed")
    await store._packing.tidy(0)
    await rewrite(store, "done/000/00000001.json", lambda _: b'{"format": 1, "tasks": [')
    other = await open_store()
    queue = Queue(other)
    task = await brought_to(queue, "completed")
    await other._packing.tidy(0)
    assert [each.name for each in await other.bucket.names("done/")][-1] == "done/000/00000002.json"
    assert (await queue.counts())[TaskStatus.Completed] == 1
    assert ids(await everything(other)) == [task.id]
    assert (await queue.stats()).damaged == 1
    clock.advance(30 * 86400)
    assert await Sweeper(other, {"completed": 0}).prune() == 1
    assert len(await other.bucket.names("done/")) == 2


async def test_an_open_task_among_ended_ones_is_damage(open_store):
    store = await open_store()
    tasks = [await brought_to(Queue(store), "completed") for _ in range(2)]
    await store._packing.tidy(0)
    await rewrite(store, await only(store, "done/"), with_task(0, status="pending"))
    other = await open_store()
    assert (await Queue(other).counts())[TaskStatus.Completed] == 1
    assert ids(await everything(other)) == [tasks[1].id]
    assert (await Queue(other).stats()).damaged == 1


async def test_marks_that_lead_in_a_circle_lead_nowhere(open_store):
    store = await open_store()
    await Queue(store).submit_many([("greet", 1), ("greet", 2, {"priority": 1})])
    one, two = [each.name for each in await store.bucket.names("tasks/")]
    await rewrite(store, one, lambda body: body | {"moved": {"lost": two}})
    await rewrite(store, two, lambda body: body | {"moved": {"lost": one}})
    await store._ids.reserve("lost", one)
    async with asyncio.timeout(10):
        assert await Queue(await open_store()).get("lost") is None


async def test_a_task_on_its_way_from_an_object_that_cannot_be_read_is_here(open_store):
    store = await open_store()
    tasks = await Queue(store).submit_many([("greet", 1), ("greet", 2, {"priority": 1})])
    source, target = [(await store._places.find([task.id]))[task.id][0] for task in tasks]
    marks = {"arriving": {tasks[1].id: source}, "since": "2026-01-28T12:00:00Z"}
    await rewrite(store, target, lambda body: body | marks)
    await rewrite(store, source, lambda _: b"{")
    assert ids(await claim(await open_store(), 10)) == [tasks[1].id]


async def test_a_harmed_order_does_not_lead_later_ones_astray(open_store):
    store = await open_store()
    await Queue(store).submit("greet")
    name = await only(store, "tasks/")

    def change(body):
        body["tasks"][0]["order"] = 2**70
        return body

    await rewrite(store, name, change)
    other = await open_store()
    await everything(other)
    task = await Queue(other).submit("greet")
    assert other._known.mirror.highest < 2**62
    assert ids(await everything(other, 1)) == [task.id]


async def test_an_answer_that_was_cut_is_asked_for_again_and_no_damage(open_store):
    task = await Queue(await open_store()).submit("greet")
    other = await open_store()
    faults = [Fault.Truncated] * 3
    line = trouble(other, lambda operation, _: faults.pop() if operation == "GET" and faults else None)
    assert ids(await claim(other)) == [task.id]
    assert len(line.happened) == 3
    assert (await Queue(other).stats()).damaged == 0
