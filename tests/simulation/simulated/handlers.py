"""What the workers of the simulation do, and what they note of it."""

import asyncio
import contextlib
from functools import wraps

from tenure import PermanentError, RescheduleError
from tenure.testing.journal import Finished, Started


def register(worker, process, journal):
    """All handlers, for a worker of this process."""
    world = process.world

    def begun(input, context):
        journal.starts.append(
            Started(journal.next(), context.task.id, input["name"], context.fence, world.clock(), worker.worker_id)
        )
        world.tell(process.name, f"starts {input['name']!r}, fence {context.fence}, attempt {context.attempt}")

    def finished(input, context, how, delay=0, extended=0):
        journal.finishes.append(Finished(journal.next(), context.task.id, context.fence, how, delay, extended))
        world.tell(process.name, f"{input['name']!r}, fence {context.fence}: {how}")

    @contextlib.contextmanager
    def noted(input, context):
        begun(input, context)
        try:
            yield
        except RescheduleError as again:
            finished(input, context, "rescheduled", again.delay_seconds, again.extend_expiration_seconds)
            raise
        except asyncio.CancelledError:
            finished(input, context, "interrupted")
            raise
        except Exception:
            finished(input, context, "failed")
            raise
        finished(input, context, "returned")

    def handler(function):
        @wraps(function)
        async def noting(input, context):
            with noted(input, context):
                return await function(input, context)

        worker.task(function.__name__)(noting)

    @handler
    async def plain(input, context):
        context.progress(1, 2)
        await asyncio.sleep(input["seconds"])
        return input["name"]

    @handler
    async def flaky(input, context):
        await asyncio.sleep(input["seconds"])
        if context.attempt <= input["failures"]:
            raise ConnectionError("not this time")

    @handler
    async def permanent(input, context):
        raise PermanentError("never")

    @handler
    async def again(input, context):
        await asyncio.sleep(input["seconds"])
        if context.task.reschedules < input["times"]:
            raise RescheduleError(input["delay"], input.get("extend", 0))

    @handler
    async def poison(input, context):
        process.crash()
        await asyncio.sleep(0)

    @handler
    async def blocking(input, context):
        world.block(input["seconds"])
        await asyncio.sleep(0)

    @handler
    async def stubborn(input, context):
        """Finishes its work although it was asked to stop."""
        try:
            await asyncio.sleep(input["seconds"] + 1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    @handler
    async def extending(input, context):
        await context.extend_lease(10)
        await asyncio.sleep(input["seconds"])

    @worker.task("threaded")
    def threaded(input, context):
        with noted(input, context):
            process.thread_takes = input["seconds"]
            return input["name"]
