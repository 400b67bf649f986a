"""Running a worker to the end of its work inside a test, through all retries, without waiting."""

from __future__ import annotations

from datetime import datetime

from tenure.errors import TenureError
from tenure.stores.base import Want
from tenure.testing.clock import FakeClock
from tenure.worker import Worker


class NeverDone(TenureError):
    """The worker still had work after as many attempts as the test allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"There is still work after {limit} attempts. Look for a task that reschedules itself for ever, "
            "or give run_until_done a higher limit."
        )
        self.limit = limit


async def run_until_done(worker: Worker, clock: FakeClock, *, limit: int = 1000) -> int:
    """Run everything the worker can ever run: what is due, then what comes due later, and so on.

    Whenever nothing is due, the clock is moved to the moment when something is, so that retries,
    delays and schedules take no time. What the worker cannot run is left alone: other queues
    and types, paused queues, tasks that another worker holds. Returns the number of attempts.

    >>> import asyncio, tenure
    >>> async def example():
    ...     clock = FakeClock()
    ...     async with tenure.connect("memory://", clock=clock) as queue:
    ...         worker = tenure.Worker(queue)
    ...
    ...         @worker.task("greet")
    ...         async def greet(input: str) -> str:
    ...             return f"hello {input}"
    ...
    ...         task = await queue.submit("greet", "Ada", delay=3600)
    ...         await run_until_done(worker, clock)
    ...         return (await queue.get(task.id)).output
    >>> asyncio.run(example())
    'hello Ada'
    """
    attempts = 0
    while True:
        attempts += await worker.run(until_idle=True, max_tasks=limit + 1 - attempts)
        if attempts > limit:
            raise NeverDone(limit)
        next_due = await _next_due(worker)
        if next_due is None:
            return attempts
        clock.set(max(next_due, clock()))


async def _next_due(worker: Worker) -> datetime | None:
    """A claim of nothing says when there will be something."""
    want = Want(worker.worker_id, worker.queues, dict.fromkeys(worker.types), 0, worker.lease)
    return (await worker.queue.store.claim(want)).next_due
