"""`tenure bench`: how fast this store is on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.cli.progress import Progress

if TYPE_CHECKING:
    from tenure.queue import Queue

app = typer.Typer()

LANE = "tenure.bench"
CALLERS = 50
BATCH = 1000


@command(app)
async def bench(
    session: Session,
    tasks: Annotated[
        int, typer.Option(help="How many tasks to submit in bulk and to drain.", min=100, max=1_000_000)
    ] = 5000,
) -> None:
    """Measure submit, drain and latency of this store, on this machine.

    It works with tasks in a queue of its own (tenure.bench) and leaves none behind.
    """
    figures: list[tuple[str, float, str]] = []
    async with await session.connect() as queue:
        with Progress(session.out, "measuring", 5) as progress:
            try:
                for step in (_one_by_one, _concurrently, _in_bulk, _drain, _latency):
                    figures += await step(queue, tasks)
                    progress.advance(1)
            finally:
                await _clean_up(queue)
    if session.out.as_json:
        session.out.emit({name: round(value, 3) for name, value, _ in figures})
        return
    rows = [
        (name.replace("_", " "), f"{value:,.0f}" if value >= 100 else f"{value:.2f}", unit)
        for name, value, unit in figures
    ]
    session.out.table(["what", "result", "unit"], rows, right=["result"])


async def _one_by_one(queue: Queue, tasks: int) -> list[tuple[str, float, str]]:
    count = min(tasks, 200)

    async def work() -> None:
        for number in range(count):
            await queue.submit(LANE, {"number": number}, queue=LANE)

    return [("submit_one_by_one", await _rate(count, work()), "tasks/s")]


async def _concurrently(queue: Queue, tasks: int) -> list[tuple[str, float, str]]:
    import asyncio

    count = min(tasks, 2000) // CALLERS * CALLERS

    async def caller() -> None:
        for number in range(count // CALLERS):
            await queue.submit(LANE, {"number": number}, queue=LANE)

    work = asyncio.gather(*(caller() for _ in range(CALLERS)))
    return [("submit_concurrently", await _rate(count, work), "tasks/s")]


async def _in_bulk(queue: Queue, tasks: int) -> list[tuple[str, float, str]]:
    async def work() -> None:
        for start in range(0, tasks, BATCH):
            count = min(BATCH, tasks - start)
            await queue.submit_many([(LANE, {"number": number}) for number in range(count)], queue=LANE)

    return [("submit_in_bulk", await _rate(tasks, work()), "tasks/s")]


async def _drain(queue: Queue, tasks: int) -> list[tuple[str, float, str]]:
    from tenure.task import TaskStatus

    del tasks
    worker = _worker(queue, [])
    waiting = (await queue.counts(LANE))[TaskStatus.Pending]
    return [("drain", await _rate(waiting, worker.run(until_idle=True)), "tasks/s")]


async def _latency(queue: Queue, tasks: int) -> list[tuple[str, float, str]]:
    """Submit to an idle worker, and look how long it takes until the handler starts."""
    import asyncio

    del tasks
    started: list[float] = []
    worker = _worker(queue, started)
    running = asyncio.create_task(worker.run())
    took = []
    try:
        for number in range(50):
            await asyncio.sleep(0.01)
            begin = time.perf_counter()
            task = await queue.submit(LANE, {"number": number}, queue=LANE)
            await queue.result(task.id, timeout=30)
            took.append((started[-1] - begin) * 1000)
    finally:
        worker.stop()
        await running
    return [
        ("latency_median", statistics.median(took), "ms"),
        ("latency_slowest", max(took), "ms"),
    ]


def _worker(queue: Queue, started: list[float]) -> Any:
    from tenure.worker import Worker

    worker = Worker(queue, queues=[LANE], concurrency=100)

    @worker.task(LANE)
    async def nothing(input: dict[str, int]) -> None:  # noqa: A002, ARG001 - the contract's name
        started.append(time.perf_counter())

    return worker


async def _rate(count: int, work: Awaitable[Any]) -> float:
    begin = time.perf_counter()
    await work
    return count / (time.perf_counter() - begin)


async def _clean_up(queue: Queue) -> None:
    tasks = [task async for task in queue.scan(queue=LANE)]
    for task in tasks:
        if not task.status.ended:
            await queue.cancel(task.id)
    ended = [task async for task in queue.scan(queue=LANE)]
    for start in range(0, len(ended), BATCH):
        await queue.store.forget(ended[start : start + BATCH], await queue.now())
