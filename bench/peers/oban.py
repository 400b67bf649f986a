"""oban (for Python) on PostgreSQL."""

import asyncio

from oban import Oban, worker
from oban.schema import install

noted = {}


@worker(queue="default")
class SendReminder:
    async def process(self, job):
        note = noted["by"]
        note(job.args)
        if note.pause:
            await asyncio.sleep(note.pause)


class Peer:
    settings = "queue limit 200"

    def __init__(self, url):
        self._url = url

    async def open(self):
        self._pool = await Oban.create_pool(self._url, min_size=2, max_size=20)
        self._oban = Oban(pool=self._pool)

    async def prepare(self):
        await install(self._pool)

    async def submit(self, payload):
        await self._oban.enqueue(SendReminder.new(payload))

    async def submit_many(self, payloads):
        await self._oban.enqueue_many([SendReminder.new(payload) for payload in payloads])

    async def left(self):
        query = "SELECT count(*) FROM oban_jobs WHERE state NOT IN ('completed', 'cancelled', 'discarded')"
        async with self._pool.connection() as connection:
            return (await (await connection.execute(query)).fetchone())[0]

    async def work(self, note, concurrency):
        noted["by"] = note
        await Oban(pool=self._pool, queues={"default": concurrency}).start()
        await asyncio.Event().wait()
