"""One report per customer and night, however many schedulers run: a slot decides who was first.

The night comes at once here, because the clock belongs to the test kit; in earnest, leave `clock` out.
"""

import asyncio
from datetime import timedelta

from tenure import Queue, Worker, connect
from tenure.testing import FakeClock, run_until_done

CUSTOMERS = ("ada", "grace", "edsger")


async def schedule_tonight(queue: Queue) -> int:
    """Reserve tonight's report of every customer; returns how many were new."""
    tonight = (await queue.now()).replace(hour=23, minute=30)
    tasks = [
        await queue.submit(
            "report",
            {"customer": name, "day": tonight.date().isoformat()},
            slot=(f"report#{name}", tonight.date()),
            schedule_at=tonight,
            expires_at=tonight + timedelta(hours=6),
        )
        for name in CUSTOMERS
    ]
    return sum(task.created for task in tasks)


async def main() -> None:
    clock = FakeClock()
    async with connect("memory://", clock=clock) as queue:
        worker = Worker(queue)

        @worker.task("report")
        async def report(input: dict[str, str]) -> None:  # noqa: A002 - the contract's name
            print(f"{await queue.now():%d.%m. %H:%M} report of {input['day']} for {input['customer']}")

        for night in range(1, 4):
            first, second = await schedule_tonight(queue), await schedule_tonight(queue)
            print(f"night {night}: {first} scheduled, {second} by the second scheduler")
            await run_until_done(worker, clock)
            clock.advance(timedelta(hours=12))


if __name__ == "__main__":
    asyncio.run(main())
