"""streaq on Redis streams."""

import asyncio

from streaq import Worker

noted = {}


async def send_reminder(payload: dict) -> None:
    note = noted["by"]
    note(payload)
    if note.pause:
        await asyncio.sleep(note.pause)


class Peer:
    settings = "concurrency 200"

    def __init__(self, url):
        self._worker = Worker(redis_url=url, concurrency=200, handle_signals=False)
        self._task = self._worker.task(name="send_reminder", ttl=0)(send_reminder)

    async def open(self):
        """The client opens itself; the worker does that when it runs."""

    async def prepare(self):
        await self._worker.__aenter__()

    async def submit(self, payload):
        await self._task.enqueue(payload)

    async def submit_many(self, payloads):
        await self._worker.enqueue_many([self._task.enqueue(payload) for payload in payloads])

    async def left(self):
        return await self._worker.queue_size()

    async def work(self, note, concurrency):
        del concurrency
        noted["by"] = note
        await self._worker.run_async()
