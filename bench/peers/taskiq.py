"""taskiq on Redis streams, which acknowledge what was done."""

import asyncio

import redis.asyncio
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

noted = {}


async def send_reminder(payload: dict) -> None:
    note = noted["by"]
    note(payload)
    if note.pause:
        await asyncio.sleep(note.pause)


class Peer:
    settings = "RedisStreamBroker from the beginning of the stream, 200 async tasks"

    def __init__(self, url):
        self._broker = RedisStreamBroker(url, consumer_id="0")
        self._task = self._broker.task(task_name="send_reminder")(send_reminder)
        self._redis = redis.asyncio.from_url(url)

    async def open(self):
        await self._broker.startup()

    async def prepare(self):
        """The stream is made when the broker starts."""

    async def submit(self, payload):
        await self._task.kiq(payload)

    async def left(self):
        (group,) = await self._redis.xinfo_groups("taskiq")
        return group["pending"] + (group["lag"] or 0)

    async def work(self, note, concurrency):
        noted["by"] = note
        self._broker.is_worker_process = True
        await run_receiver_task(self._broker, max_async_tasks=concurrency)
