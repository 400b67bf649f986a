"""Records are kept apart from their rows, and nobody but the file can tell; those of earlier versions may stand in them."""

import sqlite3
from contextlib import closing

import pytest

from tenure import DamagedRecord, TaskStatus, Worker, lifecycle
from tenure.stores.base import Change
from tenure.task import decode

LETTER = "x" * 500

INTO_ITS_ROW = """
UPDATE tenure_tasks SET record = (SELECT kept.record FROM tenure_records AS kept WHERE kept.seq = tenure_tasks.seq) WHERE id = ?
"""


def rows(path):
    """By id: the length of what stands in the row, and the record that is kept apart."""
    look = "SELECT id, length(tenure_tasks.record), kept.record FROM tenure_tasks LEFT JOIN tenure_records AS kept USING (seq)"
    with closing(sqlite3.connect(path)) as db:
        return {name: (length, record) for name, length, record in db.execute(look)}


async def worked(queue, **options):
    worker = Worker(queue, **options)

    @worker.task("greet")
    async def greet(input):
        if input == "fail":
            raise ValueError(LETTER)

    await worker.run(until_idle=True)


def as_earlier(path, task_id):
    """Put a record where earlier versions have put small ones."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(INTO_ITS_ROW, (task_id,))
        db.execute("DELETE FROM tenure_records WHERE seq = (SELECT seq FROM tenure_tasks WHERE id = ?)", (task_id,))


async def test_steps_that_columns_can_tell_leave_it_as_it_was(queue, path):
    tasks = await queue.submit_many([("greet", 1), ("greet", LETTER), ("greet", 2)])
    as_earlier(path, tasks[2].id)
    before = rows(path)
    assert [length > 0 for length, _ in before.values()] == [False, False, True]
    assert [record and decode(record).input for _, record in before.values()] == [1, LETTER, None]
    await worked(queue)
    assert rows(path) == before
    for task in tasks:
        ended = await queue.get(task.id)
        assert (ended.status, ended.input) == (TaskStatus.Completed, task.input)
        assert [event.what for event in ended.history] == ["created", "claimed", "completed"]


async def test_a_record_that_says_something_new_leaves_its_row(queue, path):
    task = await queue.submit("greet", "fail", max_attempts=1)
    as_earlier(path, task.id)
    await worked(queue)
    length, kept = rows(path)[task.id]
    assert (length, decode(kept).status) == (0, TaskStatus.Failed)
    assert LETTER in (await queue.get(task.id)).last_error
    again = await queue.retry(task.id)
    assert decode(rows(path)[task.id][1]).version == again.version
    assert await queue.get(task.id) == again
    await queue.cancel(task.id)
    assert (await queue.get(task.id)).status is TaskStatus.Cancelled


async def test_what_stands_in_the_row_is_the_newest(queue, path):
    """A process of an earlier version has written there, and has left alone what is kept apart."""
    task = await queue.submit("greet", 1)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(INTO_ITS_ROW, (task.id,))
        db.execute("UPDATE tenure_records SET record = x'00'")
    assert await queue.get(task.id) == task


async def test_changes_that_do_not_all_fit_are_kept_where_they_do(queue, path):
    first, second = await queue.submit_many([("greet", LETTER), ("greet", LETTER)])
    cancelled = await queue.cancel(first.id)
    now = await queue.now()
    changes = [Change(task, lifecycle.cancel(task, now, reason="not needed")) for task in (first, second)]
    assert await queue.store.swap(changes) == [False, True]
    assert await queue.get(first.id) == cancelled
    assert await queue.get(second.id) == changes[1].after


async def test_it_is_found_listed_and_forgotten_with_its_task(queue, path):
    task = await queue.submit("greet", LETTER, tags=["letter"])
    (found,) = (await queue.list("pending", tag="letter")).tasks
    assert found.input == LETTER
    await queue.cancel(task.id)
    await queue.store.prune({TaskStatus.Cancelled: await queue.now()}, await queue.now(), 10)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM tenure_records").fetchone() == (0,)


async def test_one_that_is_gone_is_damage_and_the_others_go_on(queue, path):
    lost, other = await queue.submit_many([("greet", LETTER), ("greet", LETTER)])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM tenure_records WHERE seq = (SELECT seq FROM tenure_tasks WHERE id = ?)", (lost.id,))
    await worked(queue)
    assert (await queue.get(other.id)).status is TaskStatus.Completed
    assert (await queue.stats()).damaged == 1
    with pytest.raises(DamagedRecord, match=lost.id):
        await queue.get(lost.id)


async def test_when_all_that_are_due_have_lost_theirs_the_worker_goes_on(queue, path):
    await queue.submit("greet", LETTER)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM tenure_records")
    await worked(queue)
    assert (await queue.stats()).damaged == 1


async def test_people_can_read_all_of_them(queue, path):
    tasks = await queue.submit_many([("greet", 1), ("greet", LETTER)])
    as_earlier(path, tasks[0].id)
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT id, json_extract(record, '$.input') FROM tenure_readable ORDER BY seq").fetchall()
    assert found == [(task.id, task.input) for task in tasks]
