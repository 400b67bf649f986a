"""docket on Redis streams."""

import asyncio

from docket import Docket, Worker

CONCURRENCY = 50


class Peer:
    settings = "concurrency 50: with 200 it runs out of connections"

    def __init__(self, url):
        self._docket = Docket(name="bench", url=url)

    async def send_reminder(self, payload: dict) -> None:
        self._note(payload)
        if self._note.pause:
            await asyncio.sleep(self._note.pause)

    async def open(self):
        await self._docket.__aenter__()

        async def send_reminder(payload: dict) -> None:
            await self.send_reminder(payload)

        self._task = send_reminder
        self._docket.register(send_reminder)

    async def prepare(self):
        """Redis needs nothing."""

    async def submit(self, payload):
        await self._docket.add(self._task)(payload)

    async def left(self):
        snapshot = await self._docket.snapshot()
        return snapshot.total_tasks

    async def work(self, note, concurrency):
        del concurrency
        self._note = note
        async with Worker(self._docket, concurrency=CONCURRENCY) as worker:
            await worker.run_forever()
