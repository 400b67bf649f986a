"""A program that forks while it uses a file, as servers that load an application before they start their workers do."""

import subprocess
import sys

from tenure import connect

PROGRAM = r"""
import asyncio, os, sys, threading
import tenure.sync
from tenure import StoreClosed, connect

url, forks = sys.argv[1], int(sys.argv[2])
queue = tenure.sync.connect(url)
queue.submit("parent", 0)
aside = asyncio.run(connect(url)._open())
over = threading.Event()


def produce():
    while not over.is_set():
        queue.submit("parent", 1)


def refused(call):
    try:
        call()
    except StoreClosed as error:
        return "Connect again in this process" in str(error)


producers = [threading.Thread(target=produce, daemon=True) for _ in range(3)]
for producer in producers:
    producer.start()
for _ in range(forks):
    if not os.fork():
        assert refused(lambda: queue.submit("child", 1))
        assert refused(lambda: asyncio.run(aside.submit("child", 1)))
        queue.close()
        asyncio.run(aside.close())
        with tenure.sync.connect(url) as own:
            own.submit("child", 2)
        os._exit(0)
    assert os.wait()[1] == 0
over.set()
for producer in producers:
    producer.join()
queue.submit("parent", 2)
queue.close()
"""


FORKS = 20


async def test_a_forked_child_is_told_to_connect_again_and_can(url):
    subprocess.run([sys.executable, "-c", PROGRAM, url, str(FORKS)], check=True, timeout=120)
    async with connect(url) as queue:
        inputs = [task.input async for task in queue.scan("pending", type="child")]
        assert inputs == [2] * FORKS
