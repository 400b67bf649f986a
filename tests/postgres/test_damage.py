"""A record that cannot be read is set aside, with a note, and stops nobody else."""

from datetime import timedelta

import pytest

from tenure import DamagedRecord
from tenure.sweeper import Sweeper
from tenure.task import encode
from tenure.testing.conformance.steps import ask, brought_to, claim, ids


async def damage(queue, task, bytes_=b"{not json"):
    for table in ("tasks", "ended"):
        await queue.store._connections.fetch(
            f"UPDATE tenure.{table} SET record = $2 WHERE id = $1", task.id, bytes_
        )  # fmt: skip


async def set_aside(queue):
    return [note.key for note in await queue.store.notes("damaged")]


@pytest.mark.parametrize("bytes_", [b"", b"{}", b"{not json", b"\xff\xfe", b"1],[2", b'{"format": 99}'])
async def test_a_claim_passes_over_it(queue, bytes_):
    first = await queue.submit("greet", "damaged")
    second = await queue.submit("greet", "sound")
    await damage(queue, first, bytes_)
    assert ids(await claim(queue.store, 2)) == [second.id]
    assert await set_aside(queue) == [first.id]
    assert (await queue.counts())["pending"] == 0
    assert (await queue.counts())["running"] == 1
    with pytest.raises(DamagedRecord):
        await queue.get(first.id)


async def test_a_record_of_another_task_is_set_aside(queue):
    first, second, third = [await queue.submit("greet", number) for number in range(3)]
    await damage(queue, first, encode(second))
    await damage(queue, third, encode(second) + b"," + encode(third))
    assert ids(await claim(queue.store, 3)) == [second.id]
    assert sorted(await set_aside(queue)) == [first.id, third.id]
    with pytest.raises(DamagedRecord, match="another one than its row says"):
        await queue.get(first.id)


async def test_the_next_of_its_key_goes(queue):
    first = await queue.submit("greet", ordering_key="k")
    second = await queue.submit("greet", ordering_key="k")
    await damage(queue, first)
    assert ids(await claim(queue.store, 2)) == [second.id]


async def test_a_damaged_one_that_lapses_is_set_aside(queue):
    task = await queue.submit("greet")
    (held,) = (await ask(queue.store, lease=timedelta(microseconds=1))).tasks
    assert held.id == task.id
    await damage(queue, task)
    assert await claim(queue.store) == []
    assert await set_aside(queue) == [task.id]


async def test_a_damaged_one_that_ended_is_never_pruned(queue):
    task = await brought_to(queue, "completed")
    sound = await brought_to(queue, "completed")
    await damage(queue, task)
    await Sweeper(queue.store, {"completed": 0}).prune()
    assert await set_aside(queue) == [task.id]
    assert await queue.get(sound.id) is None
    ((kept,),) = await queue.store._connections.fetch("SELECT record FROM tenure.ended WHERE id = $1", task.id)
    assert kept == b"{not json"


async def test_listings_leave_it_out(queue):
    damaged, sound = await queue.submit("greet"), await queue.submit("greet")
    await damage(queue, damaged)
    assert ids((await queue.list()).tasks) == [sound.id]
    assert (await queue.store.dump()).damaged == [damaged.id]
