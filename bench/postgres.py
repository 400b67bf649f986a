"""How fast Tenure is on PostgreSQL, beside what the bare driver can do with the same writes.

    python bench/postgres.py            some minutes; writes bench/results/postgres.md and .json
    python bench/postgres.py --short    a quick look; writes nothing

It starts a server of its own, with the server's default, durable settings. Every run checks that each
task was stored once and ran exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg

import bare_pick_up
import floors
import report
from postgres_floors import Floor
from report import Figure
from sqlite import CALLERS, HERE, RESULTS, SHAPES, Bench, _fill, _percentile, _with
from tenure import Queue
from tenure.stores.base import Want
from tenure.testing.postgres import PostgresServer
from workload import CONCURRENCY, TYPE, reminder

NETWORK = 0.001
"""Seconds that each direction takes in the runs over a network: 2 ms there and back."""
LEASE = timedelta(seconds=30)


def main() -> None:
    choices = _choices()
    with PostgresServer() as server:
        bench = PostgresBench(server, choices)
        about = {**report.machine(Path(tempfile.gettempdir())), "PostgreSQL": asyncio.run(_version(server.url))}
        figures = bench.run()
    title, settings = "Tenure on PostgreSQL", bench.settings()
    print(report.page(title, "today", settings, about, figures))
    if not choices.short:
        report.write(choices.results, "postgres", title, settings, about, figures)


def _choices() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one repeat with few tasks; writes no results")
    parser.add_argument("--tasks", type=int, help="tasks to submit in bulk and to drain (20000)")
    parser.add_argument("--backlog", type=int, help="tasks that stand in the way (1000000); 0: leave them out")
    parser.add_argument("--repeats", type=int, help="how often everything is measured (3)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results are written")
    choices = parser.parse_args()
    usual = {"tasks": 20_000, "backlog": 1_000_000, "repeats": 3}
    short = {"tasks": 4_000, "backlog": 10_000, "repeats": 1}
    for name, value in (short if choices.short else usual).items():
        if getattr(choices, name) is None:
            setattr(choices, name, value)
    return choices


class PostgresBench(Bench):
    """The measurements. Each begins with a schema of its own."""

    def __init__(self, server: PostgresServer, choices: argparse.Namespace) -> None:
        super().__init__(Path(), choices)
        self.server = server

    def settings(self) -> dict[str, str]:
        return {
            "durability": "the server's defaults: fsync and synchronous_commit on",
            "tasks": f"{self.tasks:,} (one by one {self.few:,}), payload of {len(json.dumps(reminder(0)))} bytes, "
            "checked by pydantic, history on",
            "worker": f"concurrency {CONCURRENCY}; server and worker on the same machine",
            "repeats": str(self.repeats),
        }

    def run(self) -> list[Figure]:
        """Everything, repeat by repeat, so that a slow moment of the machine meets all of it alike."""
        one = Figure("submit one by one", "tasks/s", floor="asyncpg, a statement each")
        callers = Figure(f"submit by {CALLERS} concurrent callers", "tasks/s", floor=f"asyncpg, {CALLERS} a statement")
        bulk = Figure("submit in bulk of 1000", "tasks/s", floor="asyncpg, 1000 a statement")
        steps = Figure("claim and finish in batches of 500, no worker", "tasks/s", floor="asyncpg, the same writes")
        drain = Figure("drain, one process", "tasks/s", floor="asyncpg, the same writes, batches of 500")
        commits = Figure("transactions per 1000 tasks of a drain", "")
        two = Figure("drain, two processes", "tasks/s")
        near = Figure("drain through a proxy", "tasks/s")
        far = Figure("drain through a proxy, 2 ms there and back", "tasks/s", floor="the proxy alone")
        half = Figure("idle pick-up across processes, p50", "ms", floor="asyncpg: insert, NOTIFY, claim")
        most = Figure("idle pick-up across processes, p99", "ms", floor="asyncpg: insert, NOTIFY, claim")
        for repeat in range(self.repeats):
            print(f"repeat {repeat + 1} of {self.repeats}", file=sys.stderr)
            one.add(self.submit_one_by_one(), self.floor(lambda floor: floor.insert(self.few, 1)))
            callers.add(self.submit_concurrently(), self.floor(lambda floor: floor.insert(self.tasks, CALLERS)))
            bulk.add(self.submit_in_bulk(), self.floor(lambda floor: floor.insert(self.tasks)))
            bare = self.floor(lambda floor: floor.claim_and_finish(self.tasks))
            steps.add(self.claim_and_finish(), bare)
            before = asyncio.run(self.transactions())
            drain.add(self.drain(processes=1), bare)
            commits.add((asyncio.run(self.transactions()) - before) * 1000 / self.tasks)
            two.add(self.drain(processes=2))
            near.add(self.drain_over(0.0))
            far.add(self.drain_over(NETWORK), near.values[-1])
            waits = self.pick_up()
            bare = self.floor(lambda floor: bare_pick_up.on_postgres(self.server.url, floor, self.samples))
            half.add(_percentile(waits, 50) * 1000, _percentile(bare, 50) * 1000)
            most.add(_percentile(waits, 99) * 1000, _percentile(bare, 99) * 1000)
        shapes = [self.claims_beside(shape, SHAPES[shape]) for shape in SHAPES] if self.backlog else []
        return [one, callers, bulk, steps, drain, commits, two, near, far, half, most, *shapes]

    def claim_and_finish(self) -> float:
        """The store's own part of a drain, one step after the other."""
        from tenure import lifecycle, payload
        from tenure.stores.base import Change

        async def work(queue: Queue) -> float:
            await _fill(queue, self.tasks)
            store = queue.store
            want = Want("bench", ("default",), {TYPE: 25}, floors.CLAIM_BATCH, LEASE)
            begin = time.monotonic()
            while tasks := (await store.claim(want)).tasks:
                now = await store.now()
                done = [Change(task, lifecycle.complete(task, task.fence, payload.NULL, now)) for task in tasks]
                assert all(await store.swap(done))
            return self.tasks / (time.monotonic() - begin)

        return asyncio.run(_with(self.url(), work))

    def drain_over(self, delay: float) -> float:
        url = self.url()
        asyncio.run(_with(url, lambda queue: _fill(queue, self.tasks)))
        with _slow_way(self.server.port, delay) as port:
            far = url.replace(f":{self.server.port}/", f":{port}/")
            return self._drain(far, 1, completed=self.tasks)

    def claims_beside(self, shape: str, make: object) -> Figure:
        """How long a claim of 100 takes beside a backlog, and on an empty store right before."""
        print(f"backlog: {shape}", file=sys.stderr)
        count = self.backlog // 10 if "key" in shape else self.backlog
        figure = Figure(f"a claim of 100 beside {count:,} {shape}", "ms", floor="beside nothing")
        empty, full = self.url(), self.url()
        asyncio.run(_with(full, lambda queue: make(queue, count)))
        for _ in range(self.repeats):
            figure.add(asyncio.run(_with(full, self._claims)) * 1000, asyncio.run(_with(empty, self._claims)) * 1000)
        return figure

    async def _claims(self, queue: Queue) -> float:
        """Seconds of a claim of 100, the median of some."""
        want = Want("bench", ("default",), {TYPE: 25}, 100, LEASE)
        took = []
        for _ in range(20):
            await _fill(queue, 100)
            begin = time.monotonic()
            tasks = (await queue.store.claim(want)).tasks
            took.append(time.monotonic() - begin)
            assert len(tasks) == 100
        return _percentile(took, 50)

    def floor(self, work: object) -> object:
        async def measured() -> object:
            self._files += 1
            floor = await Floor.open(self.server.url, f"floor_{self._files}")
            try:
                return await work(floor)
            finally:
                await floor.close()

        return asyncio.run(measured())

    async def transactions(self) -> int:
        db = await asyncpg.connect(self.server.url)
        # A backend tells what it did at most once a second, and when it ends.
        await asyncio.sleep(1.5)
        count = await db.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        await db.close()
        return count

    def url(self) -> str:
        self._files += 1
        return f"{self.server.url}?schema=bench_{self._files}"


@contextmanager
def _slow_way(port: int, delay: float) -> Iterator[int]:
    words = [sys.executable, str(HERE / "slow_way.py"), str(port), str(delay)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def _version(url: str) -> str:
    db = await asyncpg.connect(url)
    version = await db.fetchval("SHOW server_version")
    await db.close()
    return str(version)


if __name__ == "__main__":
    main()
