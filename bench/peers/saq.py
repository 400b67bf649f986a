"""SAQ, on Redis or on PostgreSQL."""

import asyncio

from saq import Queue, Worker

TYPE = "send_reminder"


class Peer:
    settings = "concurrency 200, results not kept"

    def __init__(self, url):
        self._queue = Queue.from_url(url)

    async def open(self):
        await self._queue.connect()

    async def prepare(self):
        """It sets itself up when it connects."""

    async def submit(self, payload):
        await self._queue.enqueue(TYPE, payload=payload, ttl=-1)

    async def left(self):
        return await self._queue.count("incomplete")

    async def work(self, note, concurrency):
        async def send_reminder(context, *, payload):
            del context
            note(payload)
            if note.pause:
                await asyncio.sleep(note.pause)

        await Worker(self._queue, [(TYPE, send_reminder)], concurrency=concurrency).start()
