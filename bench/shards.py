"""Whether two shards of SQLite drain faster than one file, with two worker processes, and what one process makes of them.

    python bench/shards.py [--tasks 20000] [--repeats 5]

Rounds are taken in turns, so that what else the machine does meets all of them. Every run checks that each task ran once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tenure import connect
from workload import TYPE, reminder

WORKER = Path(__file__).with_name("worker_process.py")
SETTINGS = [(files, processes) for processes in (1, 2) for files in (1, 2, 4)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    choices = parser.parse_args()
    rates: dict[tuple[int, int], list[float]] = {setting: [] for setting in SETTINGS}
    loads = [os.getloadavg()[0]]
    for _ in range(choices.repeats):
        for setting in SETTINGS:
            rates[setting].append(drained(*setting, choices.tasks))
        loads.append(os.getloadavg()[0])
    print(f"{choices.tasks} no-op tasks, {choices.repeats} rounds; load average {min(loads):.1f} to {max(loads):.1f}")
    print("| files | worker processes | tasks per second, median | lowest | highest |\n|---|---|---|---|---|")
    for (files, processes), found in rates.items():
        middle = statistics.median(found)
        print(f"| {files} | {processes} | {middle:,.0f} | {min(found):,.0f} | {max(found):,.0f} |")


def drained(files: int, processes: int, tasks: int) -> float:
    """Tasks per second, from the first start to the last end."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-shards-"))
    try:
        url = " ".join(f"sqlite:///{folder / f'{number}.db'}" for number in range(files))
        asyncio.run(filled(url, tasks))
        workers = [
            subprocess.Popen(
                [sys.executable, str(WORKER), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(processes)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        answers = [json.loads(worker.communicate()[0]) for worker in workers]
    finally:
        shutil.rmtree(folder)
    ran = sorted(number for answer in answers for number, _ in answer["ran"])
    assert ran == list(range(tasks)), "not every task ran once"
    took: float = max(answer["end"] for answer in answers) - min(answer["begin"] for answer in answers)
    return tasks / took


async def filled(url: str, tasks: int) -> None:
    async with connect(url) as queue:
        for start in range(0, tasks, 1000):
            await queue.submit_many([(TYPE, reminder(number)) for number in range(start, min(start + 1000, tasks))])


if __name__ == "__main__":
    main()
