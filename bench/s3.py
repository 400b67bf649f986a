"""How fast Tenure is on S3, beside what the bare client can do with the same requests.

    python bench/s3.py            about a minute; writes bench/results/s3.md and .json
    python bench/s3.py --short    a quick look; writes nothing

It starts a SeaweedFS of its own. Every run checks that each task was stored once and ran exactly once. The floor of a
run is the time in which the bare client, with no queue on top, sends the requests of that run again: as many of each
kind, with bodies as large, as many at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import report
from report import Figure
from sqlite import RESULTS
from tenure import Queue, Worker
from tenure.stores.s3 import S3Store
from tenure.task import TaskStatus
from tenure.testing.s3 import SeaweedFS, prepare, use_test_credentials
from workload import TYPE, reminder

BATCH = 1000
AT_ONCE = 32
places = (f"bench-{number}" for number in itertools.count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one repeat with few tasks; writes no results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results are written")
    choices = parser.parse_args()
    batches, lone, repeats = (5, 300, 1) if choices.short else (20, 2000, 3)
    use_test_credentials()
    with SeaweedFS() as server:
        runs = [asyncio.run(measure(server, batches, lone)) for _ in range(repeats)]
    figures = [
        Figure(name, "tasks/s", [run[name] for run in runs], "the bare client", [run[f"{name}, bare"] for run in runs])
        for name in ("drain of batches of 1000", "submit and drain one by one")
    ]
    settings = {
        "server": "SeaweedFS 4.48 (weed mini) on the same machine",
        "tasks": f"{batches * BATCH:,} in batches of {BATCH}, {lone:,} one by one",
        "worker": "one process, concurrency 1000 for batches, 50 one by one",
    }
    about = report.machine(Path(tempfile.gettempdir()))
    print(report.page("Tenure on S3", "today", settings, about, figures))
    for name in ("requests per task in batches", "requests per lone task"):
        print(name, runs[-1][name])
    if not choices.short:
        report.write(choices.results, "s3", "Tenure on S3", settings, about, figures)


async def measure(server: SeaweedFS, batches: int, lone: int) -> dict[str, object]:
    """One repeat of everything."""
    figures: dict[str, object] = {}
    figures |= await drain_batches(server, batches)
    figures |= await one_by_one(server, lone)
    return figures


async def drain_batches(server: SeaweedFS, batches: int) -> dict[str, object]:
    store = S3Store(prepare(server, "bench", next(places)))
    queue = Queue(store)
    for _ in range(batches):
        await queue.submit_many([(TYPE, reminder(number)) for number in range(BATCH)])
    sizes = recorded(store)
    worker, ran = counting_worker(queue, concurrency=BATCH)
    begun = time.perf_counter()
    await worker.run(until_idle=True)
    seconds, timed = time.perf_counter() - begun, sizes.copy()
    await store.close()
    await check(server, store, ran, batches * BATCH)
    bare = await replay(server, timed, at_once=2)
    return {
        "drain of batches of 1000": batches * BATCH / seconds,
        "drain of batches of 1000, bare": batches * BATCH / bare,
        "requests per task in batches": round(len(sizes) / (batches * BATCH), 4),
    }


async def one_by_one(server: SeaweedFS, lone: int) -> dict[str, object]:
    """A producer that waits for each submit, and a worker beside it, in one process."""
    store = S3Store(prepare(server, "bench", next(places)))
    queue = Queue(store)
    sizes = recorded(store)
    worker, ran = counting_worker(queue, concurrency=50)
    begun = time.perf_counter()
    running = asyncio.ensure_future(worker.run(max_tasks=lone))
    for number in range(lone):
        await queue.submit(TYPE, reminder(number))
    await running
    seconds, timed = time.perf_counter() - begun, sizes.copy()
    await store.close()
    await check(server, store, ran, lone)
    bare = await replay(server, timed, at_once=AT_ONCE)
    kinds = Counter(kind for kind, _ in sizes)
    return {
        "submit and drain one by one": lone / seconds,
        "submit and drain one by one, bare": lone / bare,
        "requests per lone task": {kind: round(count / lone, 2) for kind, count in kinds.items()},
    }


def counting_worker(queue: Queue, concurrency: int) -> tuple[Worker, Counter[int]]:
    worker = Worker(queue, concurrency=concurrency)
    ran: Counter[int] = Counter()

    @worker.task(TYPE)
    async def run(input: dict) -> None:  # noqa: A002 - the contract's name
        ran[id(input)] += 1

    return worker, ran


async def check(server: SeaweedFS, store: S3Store, ran: Counter[int], tasks: int) -> None:
    stranger = S3Store(f"{store.address.shown}?endpoint={server.endpoint}")
    counts = await Queue(stranger).counts()
    await stranger.close()
    if counts[TaskStatus.Completed] != tasks or ran.total() != tasks:
        msg = f"{ran.total()} runs and {counts} for {tasks} tasks"
        raise SystemExit(msg)


def recorded(store: S3Store) -> list[tuple[str, int]]:
    """Write down the kind and size of every request from now on."""
    sizes: list[tuple[str, int]] = []
    inner = store.client.transport

    class Recorder:
        async def exchange(self, operation, method, url, headers, body):
            reply = await inner.exchange(operation, method, url, headers, body)
            sizes.append((operation.partition(" ")[0], len(body) if method == "PUT" else len(reply.body)))
            return reply

        async def close(self):
            await inner.close()

    store.client.transport = Recorder()
    return sizes


async def replay(server: SeaweedFS, sizes: list[tuple[str, int]], at_once: int) -> float:
    """Seconds in which the bare client sends the same requests."""
    store = S3Store(prepare(server, "bench", next(places)))
    await store.open()
    bucket = store.bucket
    reads = {size for kind, size in sizes if kind == "GET"}
    read_size = int(statistics.median(reads)) if reads else 0
    await bucket.create("read.json", body(read_size), "x")
    etags = [
        await bucket.create(f"gone/{number}.json", body(10), "x")
        for number, (kind, _) in enumerate(sizes)
        if kind == "DELETE"
    ]
    gone = iter([(f"gone/{number}.json") for number, (kind, _) in enumerate(sizes) if kind == "DELETE"])
    tags = iter(etags)
    numbers = itertools.count()
    left = iter(sizes)

    async def send() -> None:
        for kind, size in left:
            if kind == "PUT":
                await bucket.create(f"tasks/{next(numbers)}.json", body(size), "x")
            elif kind == "GET":
                await bucket.read("read.json")
            elif kind == "LIST":
                await bucket.page("tasks/", limit=max(size // 300, 1))
            elif kind == "DELETE":
                await bucket.delete(next(gone), next(tags))

    begun = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(at_once)))
    seconds = time.perf_counter() - begun
    await store.close()
    return seconds


def body(size: int) -> bytes:
    """JSON of this size that nobody has stored yet."""
    text = secrets.token_hex(8)
    return b'{"x":"' + (text * (max(size - 8, 16) // 16 + 1)).encode()[: max(size - 8, 16)] + b'"}'


if __name__ == "__main__":
    main()
