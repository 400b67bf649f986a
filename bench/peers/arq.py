"""arq on Redis."""

import asyncio

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

TYPE = "send_reminder"


class Peer:
    settings = "max_jobs 200, poll_delay 0.01, results not kept"

    def __init__(self, url):
        self._settings = RedisSettings.from_dsn(url)

    async def open(self):
        self._pool = await create_pool(self._settings)

    async def prepare(self):
        """Redis needs nothing."""

    async def submit(self, payload):
        await self._pool.enqueue_job(TYPE, payload)

    async def left(self):
        return await self._pool.zcard("arq:queue")

    async def work(self, note, concurrency):
        async def send_reminder(context, payload):
            del context
            note(payload)
            if note.pause:
                await asyncio.sleep(note.pause)

        worker = Worker(
            [func(send_reminder, name=TYPE)],
            redis_pool=self._pool, max_jobs=concurrency, poll_delay=0.01, keep_result=0, handle_signals=False,
        )  # fmt: skip
        await worker.async_run()
