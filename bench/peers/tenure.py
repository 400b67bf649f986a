"""Tenure, with a worker as its users write it."""

import asyncio

from pydantic import BaseModel

from tenure import TaskStatus, Worker, connect
from tenure.punctual import punctual_loop

TYPE = "send_reminder"


def run(main):
    """As `tenure worker` does."""
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        return runner.run(main)


class Reminder(BaseModel):
    number: int
    user_id: str
    text: str
    sent: float = 0.0


class Peer:
    settings = "Worker(concurrency=200) on the loop of tenure worker; history, leases and fences on; payload validated by pydantic"

    def __init__(self, url):
        self._url = url

    async def open(self):
        self._queue = await connect(self._url)

    async def prepare(self):
        """The store sets itself up when it is opened."""

    async def submit(self, payload):
        await self._queue.submit(TYPE, payload)

    async def submit_many(self, payloads):
        await self._queue.submit_many([(TYPE, payload) for payload in payloads])

    async def left(self):
        counts = await self._queue.counts()
        return counts[TaskStatus.Pending] + counts[TaskStatus.Running]

    async def work(self, note, concurrency):
        worker = Worker(self._queue, concurrency=concurrency)

        @worker.task(TYPE)
        async def send_reminder(input: Reminder) -> None:  # noqa: A002 - the contract's name
            note({"number": input.number})
            if note.pause:
                await asyncio.sleep(note.pause)

        await worker.run()
