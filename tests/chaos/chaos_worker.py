"""A worker of a chaos run: `chaos_worker.py URL FILE`. It writes a line to the file before each execution."""

import asyncio
import json
import os
import random
import sys
import time

from chaos_work import LEASE, POLL

from tenure import RetryPolicy, Worker, connect


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
            journal.write(id=context.task.id, fence=context.fence)

        @worker.task("plain")
        async def plain(input, context):
            begin(context)
            await asyncio.sleep(random.random() * 0.02)
            return input["name"]

        @worker.task("ordered")
        async def ordered(input, context):
            begin(context)
            await asyncio.sleep(random.random() * 0.01)
            return input["name"]

        @worker.task("thread")
        def thread(input, context):
            begin(context)
            time.sleep(random.random() * 0.02)
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

        @worker.task("poison")
        async def poison(input, context):
            begin(context)
            os._exit(9)

        await worker.run()


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
