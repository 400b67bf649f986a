"""DBOS on PostgreSQL: a workflow of one step for every task."""

import asyncio

import psycopg
from dbos import DBOS

QUEUE = "reminders"
noted = {}


@DBOS.workflow(name="send_reminder")
async def send_reminder(payload: dict) -> None:
    note = noted["by"]
    note(payload)
    if note.pause:
        await asyncio.sleep(note.pause)


class Peer:
    settings = "worker_concurrency 200, polling every 10 ms"

    def __init__(self, url):
        self._url = url
        config = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
        DBOS(config=config)

    async def open(self):
        self._look = await psycopg.AsyncConnection.connect(self._url, autocommit=True)

    async def prepare(self):
        """The client submits and does not work."""
        DBOS.listen_queues([])
        DBOS.launch()
        await self._register()

    async def submit(self, payload):
        await DBOS.enqueue_workflow_async(QUEUE, send_reminder, payload)

    async def left(self):
        query = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
        return (await (await self._look.execute(query)).fetchone())[0]

    async def work(self, note, concurrency):
        del concurrency
        noted["by"] = note
        DBOS.launch()
        await self._register()
        await asyncio.Event().wait()

    async def _register(self):
        await DBOS.register_queue_async(QUEUE, worker_concurrency=200, polling_interval_sec=0.01)
