"""Increments of a counter under SIGKILLs and lapsed leases: the counter ends at exactly the number of tasks.

    python tests/postgres/increments.py [TASKS]     10,000 unless told otherwise

Each handler adds one in `context.transaction()`. Workers are killed again and again in the middle of
that, and some handlers outlive their lease on purpose and come back as zombies.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import psycopg

from tenure import Context, Worker, connect

LEASE = 1.0


class Account(NamedTuple):
    counter: int
    completed: int
    kills: int
    lapses: int


async def work(url: str) -> None:
    """One worker."""
    async with connect(f"{url}?transactions=8") as queue:
        worker = Worker(queue, concurrency=8, lease=LEASE, poll=0.1, sweep_interval=0.2)

        @worker.task("increment")
        async def increment(input: int, context: Context) -> None:
            async with context.transaction() as connection:
                await connection.execute("INSERT INTO counter_log VALUES ($1)", input)
                if input % 97 == 0 and context.attempt == 1:
                    # A worker that stands still: its lease lapses, another takes over, and then it goes on.
                    await asyncio.to_thread(_stand_still, os.getpid())
                await connection.execute("UPDATE counter SET value = value + 1")

        await worker.run()


def _stand_still(pid: int) -> None:
    """Stop this whole process for longer than a lease; somebody else lets it go on."""
    subprocess.Popen([sys.executable, "-c", f"import time, os; time.sleep({LEASE * 1.5}); os.kill({pid}, 18)"])
    os.kill(pid, signal.SIGSTOP)


async def _submit(url: str, tasks: int) -> None:
    async with connect(url) as queue:
        for start in range(0, tasks, 1000):
            await queue.submit_many(
                [("increment", number) for number in range(start, min(start + 1000, tasks))], max_attempts=1000
            )  # fmt: skip


def prove(url: str, tasks: int, workers: int, kills: int) -> Account:
    """Run it all, and tell what became of it."""
    asyncio.run(_submit(url, tasks))
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP TABLE IF EXISTS counter, counter_log")
        admin.execute("CREATE TABLE counter (value integer); INSERT INTO counter VALUES (0)")
        admin.execute("CREATE TABLE counter_log (input integer)")
        running = [_start(url) for _ in range(workers)]
        killed = 0
        try:
            while (done := _completed(admin)) < tasks:
                if killed < kills and done >= tasks * (killed + 1) // (kills + 2):
                    victim = random.randrange(workers)
                    running[victim].send_signal(signal.SIGKILL)
                    running[victim].wait()
                    running[victim] = _start(url)
                    killed += 1
                time.sleep(0.01)
        finally:
            for worker in running:
                worker.kill()
                worker.wait()
        (counter,) = admin.execute("SELECT value FROM counter").fetchone()
        (distinct,) = admin.execute("SELECT count(DISTINCT input) FROM counter_log").fetchone()
        (logged,) = admin.execute("SELECT count(*) FROM counter_log").fetchone()
        assert distinct == logged == counter, (distinct, logged, counter)
        lapses = admin.execute("SELECT count(*) FROM tenure.ended WHERE attempts > 0").fetchone()[0]
        account = Account(counter, _completed(admin), killed, lapses)
        admin.execute("DROP TABLE counter, counter_log")
    return account


def _completed(admin: psycopg.Connection) -> int:
    return admin.execute("SELECT count(*) FROM tenure.ended WHERE status = 'completed'").fetchone()[0]


def _start(url: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, "--worker", url], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        asyncio.run(work(sys.argv[2]))
    else:
        from tenure.testing.postgres import PostgresServer

        with PostgresServer() as server:
            begin = time.monotonic()
            print(prove(server.url, int(sys.argv[1]) if sys.argv[1:] else 10_000, workers=3, kills=25))  # noqa: T201 - a program
            print(f"{time.monotonic() - begin:.0f} s")  # noqa: T201
