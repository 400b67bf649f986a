"""PgQueuer on PostgreSQL, through asyncpg, on the event loop that its own command uses."""

import asyncio
import json
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

run = uvloop.run
TYPE = "send_reminder"


class Peer:
    settings = "asyncpg pool, uvloop, batch_size=500 (waiting handlers: 200 at once), durable tables (its default)"

    def __init__(self, url):
        self._url = url

    async def open(self):
        self._pool = await asyncpg.create_pool(self._url, min_size=2, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def prepare(self):
        await self._queries.install()

    async def submit(self, payload):
        await self._queries.enqueue(TYPE, json.dumps(payload).encode())

    async def submit_many(self, payloads):
        blobs = [json.dumps(payload).encode() for payload in payloads]
        await self._queries.enqueue([TYPE] * len(blobs), blobs, [0] * len(blobs))

    async def left(self):
        return await self._pool.fetchval("SELECT count(*) FROM pgqueuer")

    async def work(self, note, concurrency):
        queue = PgQueuer.from_asyncpg_pool(self._pool)

        @queue.entrypoint(TYPE)
        async def send_reminder(job):
            note(json.loads(job.payload))
            if note.pause:
                await asyncio.sleep(note.pause)

        # Without a limit it begins with all that it can fetch; then there is no share of so many slots to tell.
        batch, limit = (concurrency // 2, concurrency) if note.pause else (500, None)
        await queue.run(batch_size=batch, max_concurrent_tasks=limit, dequeue_timeout=timedelta(seconds=1))
