"""Procrastinate on PostgreSQL."""

import asyncio

import procrastinate


class Peer:
    settings = "PsycopgConnector; concurrency=200"

    def __init__(self, url):
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=20))
        self._task = self._app.task(name="send_reminder")(self._run)

    async def _run(self, **payload):
        self._note(payload)
        if self._note.pause:
            await asyncio.sleep(self._note.pause)

    async def open(self):
        await self._app.open_async()

    async def prepare(self):
        await self._app.schema_manager.apply_schema_async()

    async def submit(self, payload):
        await self._task.defer_async(**payload)

    async def submit_many(self, payloads):
        await self._task.batch_defer_async(*payloads)

    async def left(self):
        query = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
        return (await self._app.connector.execute_query_one_async(query))["count"]

    async def work(self, note, concurrency):
        self._note = note
        await self._app.run_worker_async(concurrency=concurrency, wait=True, install_signal_handlers=False)
