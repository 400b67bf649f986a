"""A record that cannot be read is set aside; everything else goes on."""

import sqlite3

import pytest

from tenure import DamagedRecord, TaskStatus, Worker
from tenure.task import encode
from tenure.testing.conformance.steps import claim, ids


def damage(path, task_id, record):
    with sqlite3.connect(path) as change:
        where = "seq = (SELECT seq FROM tenure_tasks WHERE id = ?)"
        change.execute(f"UPDATE tenure_records SET record = ? WHERE {where}", (record, task_id))
    change.close()


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"garbage",
        b"{}",
        b"\xff\xfe\x00",
        b'{"id": 5}',
        b"null",
        b"1],[2",
        b'{"id":"x","task_type":"job"}',
        b"[" * 5000,
    ],
)
async def test_a_damaged_record_is_set_aside_and_reported_and_the_others_go_on(queue, path, record, caplog):
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(input)

    tasks = [await queue.submit("job", number) for number in range(5)]
    damage(path, tasks[2].id, record)
    assert await worker.run(until_idle=True) == 4
    assert sorted(ran) == [0, 1, 3, 4]
    stats = await queue.stats()
    assert (stats.damaged, stats.counts["completed"], stats.counts["pending"]) == (1, 4, 0)
    with pytest.raises(DamagedRecord, match=tasks[2].id):
        await queue.get(tasks[2].id)
    assert any(tasks[2].id in message for message in caplog.messages)
    with sqlite3.connect(path) as look:
        (kept,) = look.execute("SELECT record FROM tenure_readable WHERE id = ?", (tasks[2].id,)).fetchone()
    look.close()
    assert kept == record


async def test_a_record_of_another_task_is_set_aside(queue, path):
    first, second, third = [await queue.submit("greet", number) for number in range(3)]
    damage(path, first.id, encode(second))
    damage(path, third.id, encode(second) + b"," + encode(third))
    assert ids(await claim(queue.store, 3)) == [second.id]
    assert sorted(note.key for note in await queue.store.notes("damaged")) == [first.id, third.id]
    with pytest.raises(DamagedRecord, match="another one than its row says"):
        await queue.get(first.id)


async def test_a_record_of_a_newer_format_is_left_for_those_who_can_read_it(queue, path):
    worker = Worker(queue)

    @worker.task("job")
    async def job(input): ...

    task = await queue.submit("job", None)
    with sqlite3.connect(path) as look:
        (record,) = look.execute("SELECT record FROM tenure_readable").fetchone()
    look.close()
    damage(path, task.id, record.replace(b'"format":1', b'"format":99'))
    assert await worker.run(until_idle=True) == 0
    with pytest.raises(DamagedRecord, match="newer Tenure"):
        await queue.get(task.id)


async def test_a_damaged_head_does_not_hold_up_the_tasks_of_its_key(queue, path):
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(input)

    tasks = [await queue.submit("job", number, ordering_key="k") for number in range(3)]
    damage(path, tasks[0].id, b"garbage")
    await worker.run(until_idle=True)
    assert ran == [1, 2]


async def test_a_damaged_record_of_a_lapsed_or_late_task_does_not_stop_recovery(queue, path):
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(input)

    late = await queue.submit("job", "late", ttl=0)
    damage(path, late.id, b"garbage")
    await queue.submit("job", "good")
    await worker.run(until_idle=True)
    assert ran == ["good"]
    assert (await queue.stats()).damaged == 1


async def test_listings_leave_a_damaged_record_out(queue, path):
    tasks = [await queue.submit("job", number) for number in range(3)]
    damage(path, tasks[1].id, b"garbage")
    listed = (await queue.list("pending")).tasks
    assert sorted(task.input for task in listed) == [0, 2]


async def test_a_damaged_ended_record_does_not_stop_the_pruning_of_others(queue, path, clock):
    worker = Worker(queue)

    @worker.task("job")
    async def job(input): ...

    tasks = [await queue.submit("job", number) for number in range(3)]
    await worker.run(until_idle=True)
    damage(path, tasks[0].id, b"garbage")
    now = await queue.now()
    await queue.store.prune({TaskStatus.Completed: now}, now, 100)
    assert (await queue.counts())[TaskStatus.Completed] == 0
    assert (await queue.stats()).damaged == 1


async def test_tasks_that_are_large_together_are_claimed_a_few_at_a_time(queue):
    """SQLite limits the size of one value; the limit is lowered here so that the test is quick."""
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(len(input))

    await queue.submit_many([("job", "x" * 20_000)] * 10)
    for thread in (queue.store._writer, queue.store._reader):
        await thread.call(lambda db: db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000))
    assert await worker.run(until_idle=True) == 10
    assert ran == [20_000] * 10


@pytest.mark.parametrize(
    "field",
    [b'"task_type":"other"', b'"status":"completed"', b'"available_at":"2999-01-01T00:00:00Z"', b'"history":[]'],
)
async def test_a_record_that_disagrees_with_its_row_is_set_aside_and_the_others_go_on(queue, path, field):
    worker, ran = Worker(queue), []

    @worker.task("job")
    async def job(input):
        ran.append(input)

    tasks = [await queue.submit("job", number) for number in range(3)]
    with sqlite3.connect(path) as look:
        (record,) = look.execute("SELECT record FROM tenure_readable WHERE id = ?", (tasks[1].id,)).fetchone()
    look.close()
    damage(path, tasks[1].id, record[:-1] + b"," + field + b"}")
    await worker.run(until_idle=True)
    assert sorted(ran) == [0, 2]
    assert (await queue.stats()).damaged == 1
