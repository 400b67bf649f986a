"""How fast Tenure is on SQLite, beside what the bare driver and plain asyncio can do.

    python bench/sqlite.py            a few minutes; writes bench/results/sqlite.md and .json, and quotes them in the README
    python bench/sqlite.py --short    a quick look; writes nothing

Every run checks that each task was stored once and ran exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

import bare_pick_up
import floors
import report
from report import Figure
from tenure import Queue, TaskStatus, connect, lifecycle
from tenure.payload import NULL
from tenure.stores.base import Piece
from workload import CONCURRENCY, TYPE, reminder

HERE = Path(__file__).parent
BULK = 1000
CALLERS = 50
SUBMIT_EVERY = 0.02
FAR_AWAY = timedelta(days=365)
RESULTS = HERE / "results"

BULK_SUBMIT = f"submit in bulk of {BULK}"
CALLERS_SUBMIT = f"submit by {CALLERS} concurrent callers"
DRAIN = "drain, one process"
PICK_UP = "idle pick-up across processes, p50"


def main() -> None:
    choices = _choices()
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-", dir=choices.folder))
    try:
        about = {**report.machine(folder), "SQLite": sqlite3.sqlite_version}
        bench = Bench(folder, choices)
        figures = bench.run()
    finally:
        shutil.rmtree(folder)
    title, settings = "Tenure on SQLite", bench.settings()
    print(report.page(title, "today", settings, about, figures))
    if not choices.short:
        report.write(choices.results, "sqlite", title, settings, about, figures)
        if choices.results == RESULTS:
            report.quote(HERE.parent / "README.md", _sentence(about, {figure.what: figure for figure in figures}))


def _sentence(about: dict[str, str], figures: dict[str, Figure]) -> str:
    median = {what: f"**{report.shown(figure.median)}" for what, figure in figures.items()}
    return (
        f"On {about['cores']} cores ({about['processor']}) with durable settings (`synchronous=FULL`), one process:\n"
        f"{median[BULK_SUBMIT]} tasks/s** submitted in bulk, {median[CALLERS_SUBMIT]} tasks/s** submitted by {CALLERS} "
        f"concurrent callers,\n{median[DRAIN]} tasks/s** run to completion with a typed payload and history, and "
        f"{median[PICK_UP]} ms** from submit to the start\nof the handler in another, idle process (p50). "
        "[bench/results/sqlite.md](bench/results/sqlite.md) has all figures, the machine,\n"
        "and what the bare driver can do beside them."
    )


def _choices() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one repeat with few tasks; writes no results")
    parser.add_argument("--tasks", type=int, help="tasks to submit in bulk and to drain (20000)")
    parser.add_argument(
        "--backlog", type=int, help="tasks that stand in the way in the backlog runs (200000); 0: leave them out"
    )
    parser.add_argument("--repeats", type=int, help="how often everything is measured (5)")
    parser.add_argument("--folder", type=Path, help="where the files are made; a real disk, not memory")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results are written")
    choices = parser.parse_args()
    usual = {"tasks": 20_000, "backlog": 200_000, "repeats": 5}
    short = {"tasks": 4_000, "backlog": 10_000, "repeats": 1}
    for name, value in (short if choices.short else usual).items():
        if getattr(choices, name) is None:
            setattr(choices, name, value)
    return choices


class Bench:
    """The measurements. Each begins with a file of its own."""

    def __init__(self, folder: Path, choices: argparse.Namespace) -> None:
        self.folder = folder
        self.tasks, self.backlog, self.repeats = choices.tasks, choices.backlog, choices.repeats
        self.few = max(self.tasks // 20, 100)
        self.samples = 100 if choices.short else 500
        self._files = 0

    def settings(self) -> dict[str, str]:
        return {
            "durability": "journal_mode=WAL, synchronous=FULL: every commit is on the disk before anyone is told",
            "tasks": f"{self.tasks:,} (one by one {self.few:,}), payload of {len(json.dumps(reminder(0)))} bytes, "
            "checked by pydantic, history on",
            "worker": f"concurrency {CONCURRENCY}; gc.freeze() after start-up",
            "repeats": str(self.repeats),
        }

    def run(self) -> list[Figure]:
        """Everything, repeat by repeat, so that a slow moment of the machine meets all of it alike."""
        one = Figure("submit one by one", "tasks/s", floor="sqlite3, a commit each")
        callers = Figure(CALLERS_SUBMIT, "tasks/s", floor=f"sqlite3, {CALLERS} a commit")
        bulk = Figure(BULK_SUBMIT, "tasks/s", floor=f"sqlite3, {floors.INSERT_BATCH} a commit")
        drain = Figure(DRAIN, "tasks/s", floor=f"sqlite3, claim and finish {floors.CLAIM_BATCH} a commit")
        loop = Figure("drain, one process, beside asyncio alone", "tasks/s", floor="asyncio, validated no-ops")
        two = Figure("drain, two processes", "tasks/s")
        half = Figure(PICK_UP, "ms", floor="sqlite3: insert, a word, claim")
        most = Figure("idle pick-up across processes, p99", "ms", floor="sqlite3: insert, a word, claim")
        names = SHAPES if self.backlog else ()
        shapes = {
            shape: Figure(f"drain beside {self.backlog:,} {shape}", "tasks/s", floor="the empty store")
            for shape in names
        }
        for repeat in range(self.repeats):
            print(f"repeat {repeat + 1} of {self.repeats}", file=sys.stderr)
            one.add(self.submit_one_by_one(), floors.insert(self.file(), self.few, 1))
            callers.add(self.submit_concurrently(), floors.insert(self.file(), self.tasks, CALLERS))
            bulk.add(self.submit_in_bulk(), floors.insert(self.file(), self.tasks, floors.INSERT_BATCH))
            drain.add(self.drain(processes=1), floors.claim_and_finish(self.file(), self.tasks))
            loop.add(drain.values[-1], floors.run_no_ops(self.tasks))
            two.add(self.drain(processes=2))
            waits, bare = self.pick_up(), bare_pick_up.on_sqlite(self.file(), self.samples)
            half.add(_percentile(waits, 50) * 1000, _percentile(bare, 50) * 1000)
            most.add(_percentile(waits, 99) * 1000, _percentile(bare, 99) * 1000)
        for shape, figure in shapes.items():
            self.drain_beside(shape, figure)
        return [one, callers, bulk, drain, loop, two, half, most, *shapes.values()]

    def submit_one_by_one(self) -> float:
        async def work(queue: Queue) -> float:
            begin = time.monotonic()
            for number in range(self.few):
                await queue.submit(TYPE, reminder(number))
            return self.few / (time.monotonic() - begin)

        return self._with_queue(work, expect=self.few)

    def submit_concurrently(self) -> float:
        async def work(queue: Queue) -> float:
            numbers = iter(range(self.tasks))

            async def caller() -> None:
                for number in numbers:
                    await queue.submit(TYPE, reminder(number))

            begin = time.monotonic()
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            return self.tasks / (time.monotonic() - begin)

        return self._with_queue(work, expect=self.tasks)

    def submit_in_bulk(self) -> float:
        async def work(queue: Queue) -> float:
            begin = time.monotonic()
            await _fill(queue, self.tasks)
            return self.tasks / (time.monotonic() - begin)

        return self._with_queue(work, expect=self.tasks)

    def drain(self, processes: int) -> float:
        url = self.url()
        asyncio.run(_with(url, lambda queue: _fill(queue, self.tasks)))
        return self._drain(url, processes, completed=self.tasks)

    def drain_beside(self, shape: str, figure: Figure) -> None:
        """The backlog is made once; each repeat submits and drains tasks beside it, and the same in an empty store right after that."""
        print(f"backlog: {shape}", file=sys.stderr)
        url = self.url()
        asyncio.run(_with(url, lambda queue: SHAPES[shape](queue, self.backlog)))
        before = asyncio.run(_completed(url))
        for repeat in range(1, self.repeats + 1):
            asyncio.run(_with(url, lambda queue: _fill(queue, self.tasks)))
            figure.add(self._drain(url, 1, completed=before + repeat * self.tasks), self.drain(processes=1))

    def pick_up(self) -> list[float]:
        """Seconds from before the submit in this process to the start of the handler in another one, which idles."""
        url = self.url()

        async def produce(queue: Queue) -> None:
            for number in range(self.samples):
                await asyncio.sleep(SUBMIT_EVERY)
                await queue.submit(TYPE, reminder(number, sent=time.monotonic()))

        with _worker_process(url, self.samples) as worker:
            worker.go()
            asyncio.run(_with(url, produce))
            ran = worker.answer()["ran"]
        _check_ran_once([number for number, _ in ran], self.samples)
        return [wait for _, wait in ran]

    def file(self) -> Path:
        self._files += 1
        return self.folder / f"{self._files}.db"

    def url(self) -> str:
        return f"sqlite:///{self.file()}"

    def _drain(self, url: str, processes: int, completed: int) -> float:
        with _worker_processes(url, processes) as workers:
            for worker in workers:
                worker.go()
            answers = [worker.answer() for worker in workers]
        _check_ran_once([number for answer in answers for number, _ in answer["ran"]], self.tasks)
        assert asyncio.run(_completed(url)) == completed
        begin, end = min(answer["begin"] for answer in answers), max(answer["end"] for answer in answers)
        return self.tasks / (end - begin)

    def _with_queue(self, work: Any, expect: int) -> float:
        async def checked(queue: Queue) -> float:
            rate: float = await work(queue)
            numbers = [task.input["number"] async for task in queue.scan("pending")]
            assert sorted(numbers) == list(range(expect)), "a task was lost or doubled"
            return rate

        return asyncio.run(_with(self.url(), checked))


class WorkerProcess:
    """A worker that was started and waits for its word."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker_process.py"), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        out, _ = self._process.communicate()
        answer: dict[str, Any] = json.loads(out)
        return answer

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def _worker_processes(url: str, count: int, *words: str) -> Iterator[list[WorkerProcess]]:
    workers: list[WorkerProcess] = []
    try:
        for _ in range(count):
            workers.append(WorkerProcess([url, *words]))  # noqa: PERF401 - those that were started are ended, also when the next one fails
        yield workers
    finally:
        for worker in workers:
            worker.end()


@contextmanager
def _worker_process(url: str, max_tasks: int) -> Iterator[WorkerProcess]:
    with _worker_processes(url, 1, str(max_tasks)) as (worker,):
        yield worker


async def _with(url: str, work: Any) -> Any:
    async with connect(url) as queue:
        return await work(queue)


async def _fill(queue: Queue, count: int, **options: Any) -> None:
    for start in range(0, count, BULK):
        numbers = range(start, min(start + BULK, count))
        await queue.submit_many([(TYPE, reminder(number)) for number in numbers], **options)


async def _completed(url: str) -> int:
    counts: dict[TaskStatus, int] = await _with(url, Queue.counts)
    return counts[TaskStatus.Completed]


async def _ended(queue: Queue, count: int) -> None:
    """Completed tasks, put in as an import would: running them would only take longer."""
    now = await queue.now()
    lease = timedelta(seconds=30)
    for start in range(0, count, BULK):
        tasks = []
        for number in range(start, min(start + BULK, count)):
            words = {"id": f"ended-{number}", "type": TYPE, "available_at": now}
            task = lifecycle.submit(now=now, input_json=msgspec.Raw(msgspec.json.encode(reminder(number))), **words)
            task = lifecycle.claim(task, worker_id="bench", now=now, lease=lease, policy_max=25)
            tasks.append(lifecycle.complete(task, task.fence, NULL, now))
        await queue.store.restore(Piece(tasks), now)


async def _scheduled(queue: Queue, count: int) -> None:
    await _fill(queue, count, delay=FAR_AWAY)


async def _behind_a_key(queue: Queue, count: int) -> None:
    """The head is due next year, and so nobody behind it moves."""
    await queue.submit(TYPE, reminder(0), delay=FAR_AWAY, ordering_key="one for all")
    await _fill(queue, count, ordering_key="one for all")


SHAPES = {
    "ended tasks": _ended,
    "scheduled tasks": _scheduled,
    "tasks behind one ordering key": _behind_a_key,
}


def _check_ran_once(numbers: list[int], count: int) -> None:
    assert sorted(numbers) == list(range(count)), (
        f"{count} tasks, {len(numbers)} runs, {len(set(numbers))} of them different"
    )


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
