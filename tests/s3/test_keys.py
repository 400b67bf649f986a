"""A producer that dies at any point between the record and the task: the next one finishes its work, once."""

import asyncio
import signal
import sys

import msgspec
import pytest
from lines import dies_at

from tenure.errors import IdempotencyConflict, StoreUnavailable
from tenure.queue import Queue
from tenure.stores.s3.names import reservation_name
from tenure.submission import build
from tenure.testing.conformance.steps import claim, complete, everything, ids

KEYED = [
    {"idempotency_key": "k"},
    {"task_id": "mine"},
    {"idempotency_key": "k", "task_id": "mine"},
    {"slot": ("daily", "2026-01-28")},
]
POINTS = [(at, after) for at in (1, 2, 3, 4) for after in (False, True)]


@pytest.mark.parametrize("options", KEYED, ids=str)
@pytest.mark.parametrize(("at", "after"), POINTS)
async def test_twenty_producers_finish_what_a_dead_one_began_as_one_task(open_store, clock, options, at, after):
    dead = await open_store()
    line = dies_at(dead, at, after=after)
    try:
        await Queue(dead).submit("greet", 1, **options)
    except StoreUnavailable:
        assert line.cut
    queues = [Queue(await open_store()) for _ in range(2)]
    tasks = await asyncio.gather(*(queues[number % 2].submit("greet", 1, **options) for number in range(20)))
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) <= 1
    assert ids(await everything(queues[0].store)) == [tasks[0].id]
    assert ids(await claim(queues[1].store, 10)) == [tasks[0].id]


async def test_a_batch_that_died_half_way_is_finished_by_its_repeat(open_store):
    for at in range(1, 7):
        dead, other = await open_store(), await open_store()
        dies_at(dead, at, after=True)
        batch = [("greet", number, {"idempotency_key": f"{at}-{number}"}) for number in range(5)]
        with pytest.raises(StoreUnavailable):
            await Queue(dead).submit_many(batch)
        tasks = await Queue(other).submit_many(batch)
        assert len(set(ids(tasks))) == 5
        again = await Queue(await open_store()).submit_many(batch)
        assert ids(again) == ids(tasks)
        assert len((await Queue(other).list(limit=1000)).tasks) == at * 5


async def test_a_conflict_in_a_batch_takes_back_every_record(queue, store):
    await queue.submit("greet", 1, idempotency_key="taken")
    batch = [("greet", number, {"idempotency_key": f"k{number}"}) for number in range(3)]
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many([*batch, ("greet", "other", {"idempotency_key": "taken"})])
    assert len(await store.bucket.names("idempotency/")) == 1
    assert all(task.created for task in await queue.submit_many(batch))


async def test_a_record_says_in_words_what_it_is_for(queue, store, clock):
    task = await queue.submit("charge_customer", {"amount": 5}, idempotency_key="charge-ORD-123")
    (listed,) = await store.bucket.names("idempotency/")
    assert listed.name.startswith("idempotency/type-charge_customer/")
    record = msgspec.json.decode((await store.bucket.read(listed.name)).body)
    assert (record["key"], record["task_id"], record["task_type"]) == ("charge-ORD-123", task.id, "charge_customer")
    assert record["key_hash"].startswith("sha256:")
    assert (record.get("state"), record["format"]) == ("creating", 1)
    assert await store.bucket.read(record["task_key"]) is not None
    await queue.submit("charge_customer", {"amount": 5}, idempotency_key="charge-ORD-123")
    record = msgspec.json.decode((await store.bucket.read(listed.name)).body)
    assert record.get("state", "ready") == "ready"


async def test_a_purged_record_is_no_harm(queue, store, clock):
    first = await queue.submit("greet", 1, idempotency_key="k")
    wanted = build("greet", 1, {"idempotency_key": "k"}, clock(), 1000).reservation
    found = await store.bucket.read(reservation_name(wanted))
    assert await store.bucket.delete(reservation_name(wanted), found.etag)
    second = await queue.submit("greet", 1, idempotency_key="k")
    assert second.created
    assert {first.id, second.id} == set(ids(await everything(store)))


async def test_a_key_holds_after_its_task_was_packed_away(queue, store, clock):
    task = await queue.submit("greet", 1, idempotency_key="k")
    (held,) = await claim(store)
    await complete(store, held)
    await store._packing.tidy(0)
    assert await store.bucket.names("tasks/") == []
    again = await queue.submit("greet", 1, idempotency_key="k")
    assert (again.id, again.created, again.status) == (task.id, False, "completed")


DIES_IN_THE_MIDDLE = """
import asyncio, os, signal, sys
import tenure
from tenure.stores.s3.writer import Writer

async def die(writer, segment):
    print("the record is written", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

Writer.create = die

async def main():
    async with tenure.connect(sys.argv[1]) as queue:
        await queue.submit("greet", {"name": "Ada"}, idempotency_key="k")

asyncio.run(main())
"""


async def test_one_hundred_producers_with_the_key_of_a_killed_process_get_one_task(s3_url, open_store):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES_IN_THE_MIDDLE, s3_url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (process.returncode, output) == (-signal.SIGKILL, b"the record is written\n")
    queues = [Queue(await open_store()) for _ in range(4)]
    assert await everything(queues[0].store) == []
    tasks = await asyncio.gather(
        *(queues[number % 4].submit("greet", {"name": "Ada"}, idempotency_key="k") for number in range(100))
    )
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) == 1
