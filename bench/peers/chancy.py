"""Chancy on PostgreSQL, with its executor for coroutines."""

import asyncio

import psycopg
from chancy import Chancy, Queue, Worker, job

noted = {}


@job()
async def send_reminder(*, payload: dict) -> None:
    note = noted["by"]
    note(payload)
    if note.pause:
        await asyncio.sleep(note.pause)


class Peer:
    settings = "AsyncExecutor, concurrency 200, eager_polling"

    def __init__(self, url):
        self._url = url
        self._chancy = Chancy(url)

    async def open(self):
        await self._chancy.__aenter__()
        self._look = await psycopg.AsyncConnection.connect(self._url, autocommit=True)

    async def prepare(self):
        await self._chancy.migrate()
        executor = "chancy.executors.asyncex.AsyncExecutor"
        await self._chancy.declare(Queue("default", concurrency=200, executor=executor, eager_polling=True))

    async def submit(self, payload):
        await self._chancy.push(send_reminder.job.with_kwargs(payload=payload))

    async def submit_many(self, payloads):
        async for _ in self._chancy.push_many([send_reminder.job.with_kwargs(payload=payload) for payload in payloads]):
            pass

    async def left(self):
        query = "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')"
        return (await (await self._look.execute(query)).fetchone())[0]

    async def work(self, note, concurrency):
        del concurrency
        noted["by"] = note
        async with Worker(self._chancy, register_signal_handlers=False) as worker:
            await worker.wait_for_shutdown()
