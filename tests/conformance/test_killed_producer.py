"""A producer's process that is killed between the record of its key and the task leaves neither behind."""

import asyncio
import signal
import sys

from tenure.queue import Queue
from tenure.stores.sqlite import SqliteStore
from tenure.testing.checker import check
from tenure.testing.conformance.steps import claim, everything, ids

DIES_IN_THE_MIDDLE = """
import asyncio, os, signal, sys
import tenure
from tenure.stores.sqlite.inserting import Insert

def die(insert, task):
    print("the record is written", insert.db.execute("SELECT count(*) FROM tenure_reservations").fetchone()[0], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

Insert._insert_absent = die

async def main():
    async with tenure.connect(sys.argv[1]) as queue:
        await queue.submit("greet", {"name": "Ada"}, idempotency_key="k")

asyncio.run(main())
"""


async def kill_a_producer(path):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES_IN_THE_MIDDLE, f"sqlite:///{path}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert output == b"the record is written 1\n"


async def test_one_hundred_producers_with_the_key_of_a_killed_one_get_one_task(tmp_path):
    path = tmp_path / "tasks.db"
    await kill_a_producer(path)
    stores = [SqliteStore(path) for _ in range(4)]
    assert await everything(stores[0]) == []
    producers = [Queue(store) for store in stores]
    tasks = await asyncio.gather(
        *(producers[number % 4].submit("greet", {"name": "Ada"}, idempotency_key="k") for number in range(100))
    )
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) == 1
    assert check(await everything(stores[0]), [tasks[0].id]) == []
    assert ids(await claim(stores[1], 10)) == [tasks[0].id]
    for store in stores:
        await store.close()
