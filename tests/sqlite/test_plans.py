"""What is searched is found through an index, and costs the same however much else is in the file."""

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest

from tenure import TaskStatus, connect, lifecycle
from tenure.payload import to_json
from tenure.stores.base import Change, Query, Want
from tenure.stores.sqlite.records import statement
from tenure.task import encode

NOW = datetime(2026, 1, 28, 12, tzinfo=UTC)
TABLES = re.compile(r"\b(tenure_\w+|task|kept)\b")
"""By their names, or by what statements call them."""
WANT = Want("w1", ("default",), {"job": 25}, 100, timedelta(seconds=30))


class Plans:
    """Every statement that the store sends, and how SQLite would find its rows."""

    def __init__(self, queue):
        self._threads = (queue.store._writer, queue.store._reader)
        self._path = queue.store.path
        self.statements = []

    async def __aenter__(self):
        for thread in self._threads:
            await thread.call(lambda db: db.set_trace_callback(self.statements.append))
        return self

    async def __aexit__(self, *_):
        for thread in self._threads:
            await thread.call(lambda db: db.set_trace_callback(None))

    def steps(self):
        words = ("SELECT", "UPDATE", "DELETE", "WITH", "INSERT")
        look = sqlite3.connect(self._path)
        found = []
        for text in dict.fromkeys(text for text in self.statements if text.lstrip().startswith(words)):
            steps = [row[3] for row in look.execute(f"EXPLAIN QUERY PLAN {text}")]
            found += [(step, text) for step in steps if TABLES.search(step)]
        look.close()
        return found

    def scans(self):
        return [entry for entry in self.steps() if entry[0].startswith("SCAN")]


@pytest.fixture
async def queue(url, clock):
    clock.set(NOW)
    async with connect(url, clock=clock) as queue:
        yield queue


async def one_of_everything(queue, clock):
    """The whole life of tasks: submit, claim, renew, end, lapse, expire, cancel, retry, list, prune."""
    store = queue.store
    await queue.submit("job", None, ordering_key="k", tags=["t"], idempotency_key="a", ttl=600)
    large = "x" * 1000
    await queue.submit("job", large, ordering_key="k", task_id="mine", slot=("s", "2026-01-28"))
    await queue.submit("job", None, delay=60)
    claimed = (await store.claim(WANT)).tasks
    task = claimed[0]
    await store.swap([Change(task, lifecycle.complete(task, task.fence, to_json(1), NOW))])
    await queue.submit("job", None, ttl=10)
    await store.claim(WANT)
    clock.advance(3600)
    await store.overdue(clock(), 10)
    await store.count_overdue(clock(), 10, TaskStatus.Pending, NOW)
    await store.count_overdue(clock(), 10, TaskStatus.Running)
    await store.due(clock())
    await store.claim(WANT)
    await queue.cancel("mine")
    await store.running_since()
    await queue.counts()
    await store.notes("worker")
    clock.advance(timedelta(days=40))
    await store.claim(WANT)
    await store.prune(dict.fromkeys([s for s in TaskStatus if s.ended], clock()), clock(), 100)


async def test_no_step_of_a_tasks_life_walks_over_all_tasks(queue, clock):
    async with Plans(queue) as plans:
        await one_of_everything(queue, clock)
    steps = plans.steps()
    assert len(steps) > 20, "the statements should have been seen"
    tables = ("tenure_tasks", "task", "tenure_records", "kept")
    # All that run are looked at to tell who has run longest, and no others stand in that index.
    running = ("SCAN tenure_tasks USING INDEX tenure_leases", statement("running_since"))
    assert [entry for entry in plans.scans() if entry[0].split()[1] in tables] == [running]
    assert any(step.startswith("SEARCH kept USING INTEGER PRIMARY KEY") for step, _ in steps)
    indexes = " ".join(step for step, _ in steps)
    for index in ("tenure_runnable", "tenure_leases", "tenure_deadlines", "tenure_ordering", "tenure_ended"):
        assert index in indexes
    for index in ("tenure_stale", "tenure_forgettable"):
        assert index in indexes


@pytest.mark.parametrize(
    ("name", "values", "index"),
    [
        ("lapsed", (1, 1), "tenure_leases (lease_expires_at<?)"),
        ("late", (1, 1), "tenure_deadlines (expires_at>? AND expires_at<?)"),
        ("prunable", ("completed", 1, 1), "tenure_ended (status=? AND ended_at>? AND ended_at<?)"),
        ("key_open", ("k",), "tenure_ordering (ordering_key=? AND status=?)"),
        ("key_block", ("k",), "tenure_ordering (ordering_key=? AND status=? AND blocked=?)"),
        ("key_next", {"key": "k"}, "tenure_ordering (ordering_key=? AND status=? AND blocked=?)"),
    ],
)
async def test_each_search_uses_the_index_that_was_made_for_it(queue, name, values, index):
    def plan(db):
        return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement(name)}", values)]

    steps = await queue.store._reader.call(plan)
    assert any(index in step for step in steps), steps
    assert not any(step.startswith("SCAN") for step in steps), steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


FILTERS = {
    "type": "job",
    "queue": "default",
    "tag": "t",
    "worker_id": "w1",
    "cancel_requested": True,
    "ordering_key": "k",
    "created_before": NOW,
    "available_by": NOW,
    "available_after": NOW,
    "min_attempts": 1,
    "oldest": True,
}
CHOICES = [names for size in range(3) for names in combinations(FILTERS, size)]


@pytest.mark.parametrize("status", [None, *TaskStatus])
async def test_every_listing_goes_through_an_index_of_its_status(queue, status):
    """Two filters at a time are enough to see every clash; without a status a listing goes by submit order."""
    for names in CHOICES:
        async with Plans(queue) as plans:
            query = Query(status=status, **{name: FILTERS[name] for name in names})
            await queue.store.find(query)
        steps = [step for step, _ in plans.steps() if "tenure_tasks" in step]
        assert len(steps) == 1, (names, steps)
        (step,) = steps
        if status is None:
            assert "USING INDEX" not in step
            continue
        expected = {"pending": ("tenure_pending",), "running": ("tenure_leases",)}.get(status, ("tenure_ended",))
        if "ordering_key" in names and not status.ended:
            expected = ("tenure_ordering",)
        if "tag" in names:
            expected = (*expected, "INTEGER PRIMARY KEY", "tenure_pending")
        assert any(index in step for index in expected), (names, step)


CROWD = """
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number LIMIT :count)
INSERT INTO tenure_tasks (id, version, status, queue, type, priority, blocked, attempts, fence,
    created_at, available_at, expires_at, ended_at, ordering_key, record)
SELECT :name || ' ' || n, 1, :status, 'default', 'job', 0, :key IS NOT NULL AND n > 0, 0, 0,
    :now, :due + n, CASE WHEN :name = 'scheduled' THEN :due + :day + n END,
    CASE WHEN :status <> 'pending' THEN :now - n END, :key, :record
FROM number
"""


def crowd(path, *, ended=0, scheduled=0, behind_one_key=0):
    """Rows as the store would write them, put in by hand because there are many."""
    now, day = int(NOW.timestamp() * 1e6), 86_400_000_000
    record = encode(lifecycle.submit(now=NOW, id="x", type="job", available_at=NOW))
    statuses = ("completed", "failed", "cancelled", "expired")
    groups = [(status, status, ended // 4, now - day, None) for status in statuses]
    groups.append(("scheduled", "pending", scheduled, now + day, None))
    groups.append(("behind", "pending", behind_one_key, now - day, "crowded"))
    with sqlite3.connect(path) as db:
        for name, status, count, due, key in groups:
            if count:
                words = {"name": name, "status": status, "count": count, "due": due, "key": key}
                db.execute(CROWD, {**words, "now": now, "day": day, "record": record})
    db.close()


async def cost_of_a_claim(queue):
    """How many steps SQLite's machine makes to claim 100 due tasks."""
    for number in range(100):
        await queue.submit("job", number, priority=1)
    steps = 0

    def tick():
        nonlocal steps
        steps += 1

    threads = (queue.store._writer, queue.store._reader)
    for thread in threads:
        await thread.call(lambda db: db.set_progress_handler(tick, 1))
    claimed = await queue.store.claim(WANT)
    for thread in threads:
        await thread.call(lambda db: db.set_progress_handler(None, 0))
    assert len(claimed.tasks) == 100
    assert all(task.priority == 1 for task in claimed.tasks)
    return steps


async def test_a_claim_costs_the_same_in_a_crowded_file_as_in_an_empty_one(tmp_path, clock):
    clock.set(NOW)
    async with connect(f"sqlite:///{tmp_path}/empty.db", clock=clock) as queue:
        alone = await cost_of_a_claim(queue)
    path = tmp_path / "crowded.db"
    async with connect(f"sqlite:///{path}", clock=clock) as queue:
        crowd(path, ended=200_000, scheduled=200_000, behind_one_key=20_000)
        crowded = await cost_of_a_claim(queue)
    assert crowded <= 2 * alone


async def test_a_claim_costs_the_same_beside_any_number_of_priorities(tmp_path, clock):
    clock.set(NOW)
    costs = []
    for priorities in (60, 600, 6000):
        async with connect(f"sqlite:///{tmp_path}/{priorities}.db", clock=clock) as queue:
            await queue.submit_many([("job", n, {"priority": -n}) for n in range(priorities)])
            costs.append(await cost_of_a_claim(queue))
    assert max(costs) <= 1.5 * min(costs)


async def test_ending_the_head_of_a_crowded_key_costs_the_same_as_ending_a_lone_one(tmp_path, clock):
    clock.set(NOW)
    costs = []
    for followers in (1, 20_000):
        path = tmp_path / f"{followers}.db"
        async with connect(f"sqlite:///{path}", clock=clock) as queue:
            crowd(path, behind_one_key=followers + 1)
            steps = 0

            def tick():
                nonlocal steps
                steps += 1

            rows = await queue.store._reader.call(
                lambda db: db.execute("SELECT id FROM tenure_tasks WHERE blocked = 0").fetchall()
            )
            assert rows == [("behind 0",)]
            head = lifecycle.submit(now=NOW, id="behind 0", type="job", available_at=NOW, ordering_key="crowded")
            await queue.store._writer.call(lambda db: db.set_progress_handler(tick, 1))
            (done,) = await queue.store.swap([Change(head, lifecycle.cancel(head, NOW))])
            await queue.store._writer.call(lambda db: db.set_progress_handler(None, 0))
            assert done
            rows = await queue.store._reader.call(
                lambda db: db.execute("SELECT id FROM tenure_tasks WHERE blocked = 0 AND status = 'pending'").fetchall()
            )
            assert rows == [("behind 1",)]
            costs.append(steps)
    alone, crowded = costs
    assert crowded <= 2 * alone
