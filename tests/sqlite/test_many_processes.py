"""Any number of processes on one file."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import TaskStatus, Worker, connect
from tenure.stores.sqlite import finding
from tenure.stores.sqlite.records import statement
from tenure.testing.conformance.steps import brought_to, complete

PROGRAM = str(Path(__file__).with_name("programs.py"))


def start(what, *arguments):
    return subprocess.Popen(
        [sys.executable, PROGRAM, what, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


async def test_eight_processes_submit_and_drain_together_and_nobody_sees_a_lock(path, url):
    processes = [start("submit and drain", path, name, 100) for name in range(8)]
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, answers
    assert "locked" not in " ".join(err for _, err in answers)
    ran = [line for out, _ in answers for line in out.splitlines()]
    assert sorted(ran) == sorted(f"{name} {number}" for name in range(8) for number in range(100))
    async with connect(url) as queue:
        counts = await queue.counts()
        assert counts[TaskStatus.Completed] == 800
        assert sum(counts.values()) == 800


@pytest.mark.parametrize("forgotten", [False, True])
async def test_an_attempt_that_ends_while_the_longest_is_looked_for_is_not_the_longest(
    url, clock, monkeypatch, forgotten
):
    loop = asyncio.get_running_loop()

    async def end(task):
        # With threads of its own, as in another process.
        async with connect(url, clock=clock) as other:
            await complete(other.store, task)
            if forgotten:
                await other.purge(task.id)

    def between(name):
        if name == "by_number":
            asyncio.run_coroutine_threadsafe(end(asked), loop).result()
        return statement(name)

    async with connect(url, clock=clock) as queue:
        asked = await brought_to(queue, "running")
        await queue.cancel(asked.id)
        clock.advance(1)
        later = await brought_to(queue, "running")
        monkeypatch.setattr(finding, "statement", between)
        assert await queue.store.running_since() == later.started_at


async def test_a_commit_of_another_process_wakes_a_waiting_worker(path, url):
    async with connect(url) as queue:
        mark = queue.store.mark()
        waiting = asyncio.create_task(queue.store.wait(mark, 3600))
        await asyncio.sleep(0)
        process = start("submit", path, "other", 1)
        async with asyncio.timeout(60):
            await waiting
        process.communicate(timeout=60)
        assert queue.store.mark() != mark


async def test_a_worker_with_a_long_poll_takes_what_another_process_submits(path, url):
    async with connect(url) as queue:
        worker = Worker(queue, poll=3600)

        @worker.task("job")
        async def job(input): ...

        running = asyncio.create_task(worker.run(max_tasks=1))
        process = start("submit", path, "other", 1)
        async with asyncio.timeout(60):
            assert await running == 1
        process.communicate(timeout=60)


@pytest.mark.parametrize("seed", range(3))
async def test_a_writer_killed_in_the_middle_of_its_commits_loses_nothing_acknowledged(path, url, seed):
    rounds = 3
    acknowledged = []
    dice = random.Random(seed)
    for _ in range(rounds):
        process = start("submit for ever", path)
        acknowledged += [process.stdout.readline().strip() for _ in range(dice.randrange(50, 500))]
        process.send_signal(signal.SIGKILL)
        # Not `communicate`: it does not know what was read ahead of the lines above, and would begin in the middle of one.
        # The last line may have been cut off.
        acknowledged += process.stdout.read().split("\n")[:-1]
        process.communicate(timeout=60)
    assert "" not in acknowledged
    async with connect(url) as queue:
        found = await queue.store.get(acknowledged)
        assert None not in found
        counts = await queue.counts()
        (rows, tags) = await queue.store._reader.call(
            lambda db: db.execute(
                "SELECT (SELECT count(*) FROM tenure_tasks), (SELECT count(*) FROM tenure_tags)"
            ).fetchone()
        )
        assert counts[TaskStatus.Pending] == rows == tags >= len(acknowledged)
        (check,) = await queue.store._reader.call(lambda db: db.execute("PRAGMA integrity_check").fetchone())
        assert check == "ok"


async def test_the_log_beside_the_file_does_not_grow_without_end(path, url):
    """It is written into the file every 4000 pages (16 MB) although readers come and go all the time."""
    log = path.with_name(path.name + "-wal")
    largest = 0
    async with connect(url) as queue:
        look = sqlite3.connect(path)
        for _ in range(40):
            await queue.submit_many([("job", "x" * 5_000)] * 200)
            look.execute("SELECT count(*) FROM tenure_tasks").fetchone()
            await queue.counts()
            largest = max(largest, log.stat().st_size)
        look.close()
    assert path.stat().st_size > 40_000_000
    assert largest < 24_000_000


async def test_the_file_alone_holds_everything_after_a_clean_close(path, url):
    async with connect(url) as queue:
        task = await queue.submit("job", None)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    async with connect(url) as queue:
        assert await queue.get(task.id) is not None
