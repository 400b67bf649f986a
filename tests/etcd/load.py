"""Producers and workers on a store that has its bad days, and the account of what they were told."""

import asyncio
import contextlib

from tenure import Context, Worker, connect
from tenure.errors import StoreUnavailable
from tenure.testing.checker import check
from tenure.testing.conformance.steps import everything

PATIENCE = 40


class Load:
    """Two producers that repeat what was not answered, each with ordering keys of its own, and two workers."""

    def __init__(self, url, workers=2, lease=3.0):
        self.url, self.lease = url, lease
        self.names = [f"w{number}" for number in range(workers)]
        self.acknowledged, self.executions, self.completed = [], [], set()
        self.stopping = False
        self._news = asyncio.Event()

    async def __aenter__(self):
        self.queues = [await connect(self.url) for _ in range(2 + len(self.names))]
        self.workers = [self._worker(name, queue) for name, queue in zip(self.names, self.queues[2:], strict=True)]
        self.producing = [asyncio.create_task(self._produce(number)) for number in range(2)]
        self.working = [asyncio.create_task(worker.run()) for worker in self.workers]
        return self

    async def __aexit__(self, *_):
        self.stopping = True
        for worker in self.workers:
            worker.stop()
        # After a failure the store may be away for good, and a producer insists.
        for producer in self.producing:
            producer.cancel()
        await asyncio.gather(*self.producing, *self.working, return_exceptions=True)
        for queue in self.queues:
            await queue.close()

    async def _produce(self, producer):
        queue, number = self.queues[producer], 0
        while not self.stopping:
            number += 1
            task_id = f"{producer}-{number}"
            options = {"task_id": task_id, "ordering_key": f"{producer}-{number % 5}" if number % 3 else None}
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await queue.submit("work", number, **options)
                    break
            self.acknowledged.append(task_id)
            self._news.set()
            await asyncio.sleep(0.002)

    def _worker(self, name, queue):
        worker = Worker(queue, worker_id=name, concurrency=10, lease=self.lease, poll=0.5, grace=5, sweep_interval=0.5)

        @worker.task("work")
        async def work(input: int, context: Context) -> int:
            self.executions.append((context.task.id, context.fence))
            return input

        @worker.on_success
        def count(task):
            self.completed.add(task.id)
            self._news.set()

        return worker

    async def goes_on(self, more=50):
        """Return when so many more tasks have been acknowledged and as many completed."""
        target = len(self.acknowledged) + more, len(self.completed) + more
        async with asyncio.timeout(PATIENCE):
            while (len(self.acknowledged), len(self.completed)) < target or len(self.completed) < target[1]:
                self._news.clear()
                await self._news.wait()

    async def finish(self):
        """Everything that was acknowledged comes to its end."""
        self.stopping = True
        await asyncio.gather(*self.producing)
        async with asyncio.timeout(PATIENCE):
            while not self.completed.issuperset(self.acknowledged):
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await self._news.wait()
                await self._look_for_lost_answers()

    async def _look_for_lost_answers(self):
        """A completion whose answer was lost is settled later, or by another worker's claim."""
        missing = [task_id for task_id in self.acknowledged if task_id not in self.completed]
        with contextlib.suppress(StoreUnavailable):
            for task in await self.queues[0].store.get(missing):
                if task is not None and task.completed_at is not None:
                    self.completed.add(task.id)

    async def account(self):
        """Nothing lost, nothing done twice, every key in order, and the counts are right."""
        tasks = await everything(self.queues[0].store, page=1000)
        broken = check(tasks, self.acknowledged, executions=self.executions, all_ended=True)
        assert broken == [], broken
        counts = {status: count for status, count in (await self.queues[0].counts()).items() if count}
        assert counts == {"completed": len(tasks)}, counts
