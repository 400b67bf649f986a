"""How many instructions a worker takes for a task, with nothing observed and with everything: counted, not timed.

    python bench/instructions.py                       a few minutes; prints a table
    python bench/instructions.py nothing logging       some ways alone (see observe.py)

A machine that others share makes the same work take half as long again from one minute to the next; the number of instructions stays the same,
within some per cent. It is no time: how often memory is waited for is not in it. Valgrind counts (Debian: `apt-get install valgrind`). Two drains of
different length are counted, and the difference is divided by the tasks between them, so that neither start nor end is in it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import observe
from tenure import Worker, connect
from tenure.observe import events
from tenure.worker import heartbeat
from tenure.worker.prefetch import LIMIT, Prefetch
from workload import CONCURRENCY, TYPE

FEW, MANY = 1000, 4000
USUAL = [way for way in observe.WAYS if way != "sampled"]
NEVER = 10_000.0


class AsMany(Prefetch):
    """A worker under Valgrind is fifty times slower, and would hold fewer tasks: this one holds what a quick one does."""

    def room(self, waiting: int) -> int | None:
        return None if waiting > LIMIT // 2 else LIMIT - waiting


async def drain(way: str, url: str, tasks: int) -> None:
    """What goes by the clock happens as often as in a drain of a second: not at all."""
    heartbeat.CHECK_INTERVAL = heartbeat.NOTE_INTERVAL = events.LOOK_EVERY = NEVER
    async with connect(url) as queue:
        observe.subscribe(queue, way, Path(url.removeprefix("sqlite:///")).parent)
        worker = Worker(queue, concurrency=CONCURRENCY, lease=NEVER, sweep_interval=NEVER)
        worker.task(TYPE)(observe.do_nothing)
        gc.collect()
        gc.freeze()
        assert await worker.run(max_tasks=tasks) == tasks


async def fill(way: str, url: str, tasks: int) -> None:
    async with connect(url) as queue:
        observe.subscribe(queue, way, Path(url.removeprefix("sqlite:///")).parent)
        # One batch more than is drained, so that no drain meets the end of the queue.
        await observe.submit(queue, tasks + observe.BATCH)


def counted(way: str, tasks: int) -> int:
    """The instructions of a whole process that drains so many."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        words = [sys.executable, __file__, "--role", way, f"sqlite:///{folder}/tasks.db", str(tasks)]
        settings = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run([*words, "fill"], check=True, env=settings)
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        run = subprocess.run([*valgrind, *words, "drain"], check=True, env=settings, capture_output=True, text=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", run.stderr)
    assert found is not None, run.stderr
    return int(found[1].replace(",", ""))


def per_task(way: str) -> float:
    return (counted(way, MANY) - counted(way, FEW)) / (MANY - FEW)


def main() -> None:
    if sys.argv[1:2] == ["--role"]:
        _, _, way, url, tasks, role = sys.argv
        if role == "drain":
            # In place before any worker looks for it.
            sys.modules["tenure.worker.run"].Prefetch = AsMany  # type: ignore[attr-defined]
        asyncio.run({"fill": fill, "drain": drain}[role](way, url, int(tasks)))
        return
    ways = sys.argv[1:] or USUAL
    if unknown := set(ways) - set(observe.WAYS):
        sys.exit(f"Unknown: {', '.join(sorted(unknown))}. There are {', '.join(observe.WAYS)}.")
    if shutil.which("valgrind") is None:
        sys.exit("This needs valgrind, which is not here. On Debian: apt-get install valgrind")
    print("| what | instructions per task | of the first |\n|---|---|---|")
    first = 0.0
    for way in ways:
        found = per_task(way)
        first = first or found
        print(f"| {observe.WAYS[way]} | {found:,.0f} | {found / first:.0%} |", flush=True)


if __name__ == "__main__":
    main()
