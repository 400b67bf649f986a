"""`tenure export`, `import` and `copy`: nothing is lost, nothing is doubled."""

import asyncio
import json
import subprocess
import sys
from datetime import timedelta

import pytest

import tenure.sync
from tenure import TaskStatus, transfer
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.testing import FakeClock, Fault, FaultyStore
from tenure.testing.conformance.steps import brought_to, claim_one, complete

from .conftest import work_off


@pytest.fixture
def lively(terminal, queue):
    """A queue with pending, scheduled, retrying-to-be, ended and keyed tasks."""
    tasks = [queue.submit("greet", number, idempotency_key=f"k{number}", tags=["red"]) for number in range(5)]
    queue.submit("breaks", "this")
    asyncio.run(work_off(terminal.url))
    tasks += [queue.submit("greet", delay=3600), queue.submit("greet", ordering_key="a"), queue.submit("other")]
    queue.cancel(tasks[-1].id, reason="no need")
    gone = queue.submit("greet", 1, idempotency_key="gone")
    queue.cancel(gone.id)
    queue.purge(gone.id)
    return queue


@pytest.fixture
def other(terminal):
    with tenure.sync.connect(f"sqlite:///{terminal.folder / 'other.db'}") as queue:
        yield queue


def everything(queue):
    return queue.list(limit=10_000).tasks


def assert_moved(queue, other):
    assert everything(other) == everything(queue)
    again = other.submit("greet", 3, idempotency_key="k3")
    assert (again.created, again.status) == (False, TaskStatus.Completed)
    assert other.submit("greet", 1, idempotency_key="gone").created is False
    assert everything(other) == everything(queue)


def test_an_export_and_an_import_move_everything(terminal, lively, other):
    answer = terminal.process("export", "all.jsonl")
    assert answer.out == "9 tasks and 6 keys written to all.jsonl\n"
    answer = terminal.process("import", "all.jsonl", "--url", "sqlite:///other.db")
    assert answer.out == "9 tasks and 6 keys put in, 0 tasks were there\n"
    assert_moved(lively, other)


def test_an_import_made_again_changes_nothing(terminal, lively, other):
    terminal("export", "all.jsonl")
    terminal("import", "all.jsonl", "--url", "sqlite:///other.db")
    before = everything(other)
    report = terminal("import", "all.jsonl", "--url", "sqlite:///other.db", "--json").json
    assert (report["tasks"], report["reservations"], report["there"], report["complete"]) == (0, 0, 10, True)
    assert everything(other) == before


def test_an_export_is_lines_of_json_with_a_count_at_the_end(terminal, lively):
    lines = [json.loads(line) for line in terminal.process("export", "-").out.splitlines()]
    assert lines[0] == {"tenure_export": 1}
    assert lines[-1] == {"end": {"tasks": 9, "stones": 1, "reservations": 6}}
    assert sum("task" in line for line in lines) == 9


def test_an_export_never_writes_over_a_file_unasked(terminal, lively):
    (terminal.folder / "all.jsonl").write_text("precious")
    assert "all.jsonl exists. Add --resume" in terminal("export", "all.jsonl", code=1).err
    assert (terminal.folder / "all.jsonl").read_text() == "precious"
    terminal("export", "all.jsonl", "--force")
    assert "complete" in terminal("export", "all.jsonl", "--resume", code=1).err


def test_an_interrupted_export_is_refused_by_the_import_and_can_be_finished(terminal, queue, other):
    queue.submit_many([("greet", number, {"idempotency_key": str(number)}) for number in range(1200)])
    terminal("export", "all.jsonl")
    whole = (terminal.folder / "all.jsonl").read_bytes()
    (terminal.folder / "all.jsonl").write_bytes(whole[: len(whole) // 3])
    error = terminal("import", "all.jsonl", "--url", "sqlite:///other.db", code=1).err
    assert "This export is cut off" in error
    assert not any(other.counts().values())
    terminal("export", "all.jsonl", "--resume")
    terminal("import", "all.jsonl", "--url", "sqlite:///other.db")
    assert everything(other) == everything(queue)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "cut off"),
        ("nonsense\n", "Line 1 cannot be read"),
        ('{"task": {"id": 1}}\n', "Line 1 cannot be read"),
        ('{"end": {}}\n', "no export of Tenure"),
        ('{"tenure_export": 99}\n', "written by a newer Tenure"),
        ('{"tenure_export": 1}\n{"end": {"tasks": 3}}\n', "This export is damaged"),
    ],
)
def test_a_file_that_is_no_whole_export_is_refused_before_anything_is_written(terminal, queue, content, error):
    (terminal.folder / "all.jsonl").write_text(content)
    assert error in terminal("import", "all.jsonl", code=1).err
    assert not any(queue.counts().values())
    assert "does not exist" in terminal("import", "nowhere.jsonl", code=2).err


def test_a_copy_moves_everything_and_leaves_the_source_paused(terminal, lively, other):
    answer = terminal.process("copy", "sqlite:///tenure.db", "sqlite:///other.db")
    assert answer.out == "9 tasks and 6 keys put in, 0 tasks were there\n"
    assert "stay paused" in answer.err
    assert_moved(lively, other)
    assert lively.paused() == {"default": "being moved to another store"}
    assert other.paused() == {}


def test_a_copy_takes_profiles_for_addresses(terminal, lively, other):
    (terminal.folder / "tenure.toml").write_text(
        '[profiles.old]\nurl = "sqlite:///tenure.db"\n[profiles.new]\nurl = "sqlite:///other.db"\n'
    )
    assert terminal("copy", "old", "new", "--no-pause", "--json").json["tasks"] == 9
    assert lively.paused() == {}
    assert "no profile 'newer'" in terminal("copy", "old", "newer", code=2).err


def test_a_store_is_not_copied_into_itself(terminal, lively):
    error = terminal("copy", "sqlite:///tenure.db", f"sqlite:///{terminal.folder}/tenure.db", code=2).err
    assert "are the same store" in error


def test_a_running_task_is_left_behind_and_named(terminal, queue, other):
    asyncio.run(start_one(terminal.url))
    (running,) = queue.list("running").tasks
    queue.submit("greet")
    answer = terminal("copy", "sqlite:///tenure.db", "sqlite:///other.db", "--wait", "0s", code=1)
    assert f"left behind, because it is running: {running.id}" in answer.err
    assert [task.status for task in everything(other)] == ["pending"]
    assert terminal("export", "all.jsonl", "--json", code=1).json["running"] == [running.id]


async def start_one(url):
    async with tenure.connect(url) as queue:
        await brought_to(queue, "running")


async def test_a_copy_waits_for_what_runs(clock, source, target):
    held = await brought_to(source, "running")
    waiting = asyncio.create_task(transfer.wait_for_running(source, timedelta(minutes=1)))
    await asyncio.sleep(0)
    await complete(source.store, held)
    assert await waiting == 0
    assert (await transfer.copy(source, target)).complete
    assert (await target.get(held.id)).status is TaskStatus.Completed


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def source(clock):
    return Queue(MemoryStore(clock))


@pytest.fixture
def target(clock):
    return Queue(MemoryStore(clock))


async def test_a_task_that_went_on_in_the_source_is_brought_up_to_date(source, target):
    task = await source.submit("greet")
    await transfer.copy(source, target)
    await source.cancel(task.id)
    report = await transfer.copy(source, target)
    assert (report.updated, report.complete) == (1, True)
    assert await target.get(task.id) == await source.get(task.id)


async def test_a_task_that_went_on_in_the_target_is_left_alone(source, target):
    task = await source.submit("greet")
    await transfer.copy(source, target)
    done = await complete(target.store, await claim_one(target.store))
    report = await transfer.copy(source, target)
    assert (report.tasks, report.updated, report.complete) == (0, 0, True)
    assert await target.get(task.id) == done


async def test_a_task_that_went_on_in_both_is_a_conflict_that_is_named(source, target):
    task = await source.submit("greet")
    await transfer.copy(source, target)
    done = await complete(target.store, await claim_one(target.store))
    await source.cancel(task.id)
    report = await transfer.copy(source, target)
    assert report.conflicts == [f"task {task.id} is completed there and cancelled here: each went on alone"]
    assert await target.get(task.id) == done


async def test_a_key_that_both_gave_away_is_a_conflict_that_is_named(source, target):
    mine = await source.submit("greet", 1, idempotency_key="k")
    theirs = await target.submit("greet", 1, idempotency_key="k")
    report = await transfer.copy(source, target)
    assert report.conflicts == [f"key 'k' belongs to task {theirs.id} there and to {mine.id} here"]
    assert not report.complete


class Busy(MemoryStore):
    """A store into which a producer puts something after each look at it, three times."""

    late = 0

    async def dump(self, cursor=None, limit=500):
        piece = await super().dump(cursor, limit)
        if self.late < 3:
            self.late += 1
            await Queue(self).submit("greet", "late", idempotency_key=str(self.late))
        return piece


async def test_what_is_submitted_during_a_copy_is_taken_along(clock, target):
    source = Queue(Busy(clock))
    await source.submit_many([("greet", number) for number in range(700)])
    assert (await transfer.copy(source, target)).complete
    assert await target.store.dump(limit=5000) == await source.store.dump(limit=5000)
    assert await transfer.total(target) == 703


@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("method", ["dump", "restore"])
async def test_a_copy_that_broke_down_is_simply_made_again(clock, source, method, kind):
    await source.submit_many([("greet", number, {"idempotency_key": str(number)}) for number in range(1200)])
    faulty = Queue(FaultyStore(source.store, plan=[Fault(method, kind, nth=2)]))
    target = Queue(FaultyStore(MemoryStore(clock), plan=[Fault(method, kind, nth=2)]))
    with pytest.raises(ConnectionError):
        await transfer.copy(faulty, target)
    assert (await transfer.copy(faulty, target)).complete
    assert await target.store.dump(limit=5000) == await source.store.dump(limit=5000)


def test_a_copy_that_was_killed_is_simply_made_again(terminal, queue, other):
    queue.submit_many([("greet", number, {"idempotency_key": str(number)}) for number in range(1600)])
    killer = (
        "import os, signal, tenure.transfer as t\n"
        "put, seen = t.put, []\n"
        "async def once(*a):\n"
        "    await put(*a)\n"
        "    seen.append(1)\n"
        "    if len(seen) == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "t.put = once\n"
        "from tenure.cli.program import invoke\n"
        "invoke(['copy', 'sqlite:///tenure.db', 'sqlite:///other.db'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", killer], cwd=terminal.folder, env=terminal.environment, check=False)
    assert killed.returncode == -9
    assert 0 < sum(other.counts().values()) < 1600
    report = terminal("copy", "sqlite:///tenure.db", "sqlite:///other.db", "--json").json
    assert report["tasks"] + report["there"] == 1600
    assert everything(other) == everything(queue)
