"""Waiting for facts, never for time."""

import asyncio
import contextlib
import inspect

PATIENCE = 30.0


async def until(fact):
    """Look again and again until the fact holds, and return what was seen."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = fact()
            if inspect.isawaitable(seen):
                seen = await seen
            if seen:
                return seen
            await asyncio.sleep(0.002)


async def until_status(queue, task_id, status):
    async def reached():
        task = await queue.get(task_id)
        return task if task.status == status else None

    return await until(reached)


@contextlib.asynccontextmanager
async def working(worker, **how):
    """A worker at work; afterwards it is stopped at once."""
    run = asyncio.create_task(worker.run(**how))
    await until(lambda: worker._run is not None or run.done())
    try:
        yield run
    finally:
        worker.stop(now=True)
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([run])
    run.result()
