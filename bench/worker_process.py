"""One worker process of the benchmark: says that it is ready, waits for the word to go, works, and tells what it ran."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

from tenure import Worker, connect
from workload import CONCURRENCY, TYPE, Reminder


async def work(url: str, max_tasks: int | None) -> dict[str, object]:
    ran: list[tuple[int, float]] = []
    async with connect(url) as queue:
        worker = Worker(queue, concurrency=CONCURRENCY)

        @worker.task(TYPE)
        async def run(input: Reminder) -> None:  # noqa: A002 - the contract's name
            ran.append((input.number, time.monotonic() - input.sent))

        # What start-up leaves behind lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        begin = time.monotonic()
        await worker.run(until_idle=max_tasks is None, max_tasks=max_tasks)
        return {"begin": begin, "end": time.monotonic(), "ran": ran}


if __name__ == "__main__":
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(json.dumps(asyncio.run(work(sys.argv[1], limit))))
