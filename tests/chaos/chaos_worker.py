"""A worker of a chaos run: `chaos_worker.py URL FILE`. It writes a line to the file before each execution."""

import asyncio
import json
import os
import random
import sys
import threading
import time

from chaos_stuck import answer_when_asked
from chaos_work import LEASE, NO_STORE, POISONED, POLL

from tenure import RescheduleError, RetryPolicy, StoreUnavailable, Worker, connect


class Journal:
    """An append-only file: a line is with the operating system before the handler goes on, whoever is killed then."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **words):
        os.write(self._file, json.dumps(words).encode() + b"\n")


def counted(queue):
    """Count what happens here, if somebody gave a folder for it."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        from tenure.observe.prometheus import Prometheus

        queue.observe(Prometheus())


async def work(url, path):
    answer_when_asked()
    journal = Journal(path)
    async with connect(url) as queue:
        counted(queue)
        worker = Worker(
            queue,
            concurrency=8,
            lease=LEASE,
            poll=POLL,
            sweep_interval=0.5,
            retry=RetryPolicy(base=0.05, max_delay=0.2, max_attempts=25),
        )

        def begin(context):
            journal.write(what="begun", id=context.task.id, fence=context.fence, at=time.monotonic())

        def end(context):
            journal.write(what="returned", id=context.task.id, fence=context.fence, at=time.monotonic())

        @worker.task("plain")
        async def plain(input, context):
            begin(context)
            await asyncio.sleep(random.random() * 0.02)
            return input["name"]

        @worker.task("ordered")
        async def ordered(input, context):
            begin(context)
            await asyncio.sleep(random.random() * 0.01)
            end(context)
            return input["name"]

        @worker.task("thread")
        def thread(input, context):
            begin(context)
            # The library that makes clocks wrong does not know how to sleep.
            threading.Event().wait(random.random() * 0.02)
            return input["name"]

        @worker.task("flaky")
        async def flaky(input, context):
            begin(context)
            if context.attempt <= input["failures"]:
                raise ConnectionError("not this time")
            return input["name"]

        @worker.task("doomed")
        async def doomed(input, context):
            begin(context)
            raise ValueError("never")

        @worker.task("long")
        async def long(input, context):
            begin(context)
            await asyncio.sleep(LEASE * random.uniform(1, 3))
            return input["name"]

        @worker.task("again")
        async def again(input, context):
            begin(context)
            if context.task.reschedules < 2:
                raise RescheduleError(0.05)
            return input["name"]

        @worker.task("poison")
        async def poison(input, context):
            begin(context)
            os._exit(POISONED)

        await worker.run()


if __name__ == "__main__":
    try:
        asyncio.run(work(*sys.argv[1:]))
    except StoreUnavailable as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_STORE)
