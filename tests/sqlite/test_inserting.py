"""What is searched stands in columns, and they say what the record says, whichever statement wrote the row."""

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from tenure.task import decode
from tenure.times import to_micros

COLUMNS = """id, queue, type, priority, blocked, created_at, available_at, expires_at, ordering_key, version, status, attempts,
    fence, lease_expires_at, ended_at, worker_id, claimed_at, policy_max, cancel_requested, progress, output"""

BEHIND = "behind another one of its key"
ALIKE = [("greet", number) for number in range(600)]
UNLIKE = [
    ("greet", 1),
    ("greet", 2, {"priority": 7}),
    ("greet", 3, {"queue": "other"}),
    ("greet", 4, {"delay": 60}),
    ("greet", 5, {"ttl": timedelta(hours=1)}),
    ("leave", 6),
    ("leave", 7, {"ordering_key": "k"}),
    ("leave", BEHIND, {"ordering_key": "k"}),
    ("leave", 9, {"tags": ["t"]}),
]


@pytest.mark.parametrize(
    ("tasks", "options"),
    [(ALIKE, {}), (ALIKE, {"ttl": 60, "delay": 5, "priority": -3, "queue": "other"}), (UNLIKE, {}), (UNLIKE[:1], {})],
)
async def test_columns_of_new_tasks_say_what_their_records_say(queue, path, tasks, options):
    submitted = await queue.submit_many(tasks, **options)
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(
            f"SELECT tenure_records.record, {COLUMNS} FROM tenure_tasks JOIN tenure_records USING (seq) ORDER BY seq"
        ).fetchall()
    assert [decode(record) for record, *_ in found] == submitted
    assert [columns for _, *columns in found] == [expected(task, blocked=task.input == BEHIND) for task in submitted]


def expected(task, *, blocked):
    moments = [None if at is None else to_micros(at) for at in (task.created_at, task.available_at, task.expires_at)]
    start = [task.id, task.queue, task.type, task.priority, int(blocked), *moments, task.ordering_key]
    return [*start, 1, "pending", 0, 0, None, None, None, None, None, 0, None, None]
