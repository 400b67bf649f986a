"""Programs that the tests start as processes of their own: `programs.py WHAT ARGUMENT…`."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tenure import RetryPolicy, StoreError, StoreFull, Worker, connect


def say(words):
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


async def opens(path):
    async with connect(f"sqlite:///{path}"):
        say("opened")


async def opens_as_nobody(path):
    # What has to be loaded is loaded while that is still allowed.
    with tempfile.TemporaryDirectory() as folder:
        async with connect(f"sqlite:///{folder}/jobs.db"):
            pass
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        async with connect(f"sqlite:///{path}") as queue:
            await queue.submit("job", None)
            say("opened")
    except Exception as error:
        say(f"{type(error).__name__}: {error}")


async def submits(path, name, count):
    """Says the id of each task once it is acknowledged."""
    async with connect(f"sqlite:///{path}") as queue:
        for number in range(int(count)):
            say((await queue.submit("job", f"{name} {number}")).id)


async def submits_for_ever(path):
    """Many callers at once; each id is said when it is acknowledged."""

    async def caller(queue, name):
        number = 0
        while True:
            task = await queue.submit("job", f"{name} {number}", tags=["mine"])
            number += 1
            say(task.id)

    async with connect(f"sqlite:///{path}") as queue:
        await asyncio.gather(*(caller(queue, name) for name in range(10)))


async def submits_and_drains(path, name, count):
    """Submits its share while it works on everybody's; says what it ran."""
    async with connect(f"sqlite:///{path}") as queue:
        worker = Worker(queue, concurrency=10, retry=RetryPolicy(base=0))
        ran = []

        @worker.task("job")
        async def job(input):
            ran.append(input)

        async def submit():
            for number in range(0, int(count), 10):
                await asyncio.gather(
                    *(queue.submit("job", f"{name} {index}") for index in range(number, number + 10)),
                )

        await asyncio.gather(submit(), worker.run(until_idle=True))
        await worker.run(until_idle=True)
        for each in ran:
            say(each)


async def fills_the_disk(path):
    """Submits until there is no room, then says which tasks were acknowledged and what the error was."""
    async with connect(f"sqlite:///{path}") as queue:
        try:
            while True:
                say((await queue.submit("job", "x" * 20_000)).id)
        except StoreFull as error:
            say(f"full: {error}")
        except StoreError as error:
            say(f"error: {type(error).__name__}: {error}")
        sys.stdin.readline()
        say((await queue.submit("job", "after")).id)


async def fills_a_small_limit(path):
    """The same with a limit on the size of files instead of a small disk."""
    import resource

    limit = Path(path).stat().st_size + 2_000_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    async with connect(f"sqlite:///{path}") as queue:
        try:
            while True:
                say((await queue.submit("job", "x" * 20_000)).id)
        except StoreError as error:
            say(f"error: {type(error).__name__}: {error}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        say((await queue.submit("job", "after")).id)


PROGRAMS = {
    "open": opens,
    "open as nobody": opens_as_nobody,
    "submit": submits,
    "submit for ever": submits_for_ever,
    "submit and drain": submits_and_drains,
    "fill the disk": fills_the_disk,
    "fill a small limit": fills_a_small_limit,
}

if __name__ == "__main__":
    asyncio.run(PROGRAMS[sys.argv[1]](*sys.argv[2:]))
