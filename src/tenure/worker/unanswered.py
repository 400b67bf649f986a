"""Claims whose answer was lost: held in this worker's name in the store, and unknown to it."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime

from tenure.stores.base import Query, Store
from tenure.task import Task, TaskStatus
from tenure.worker import prefetch


class Unanswered:
    """Tells them apart from what this worker had begun and given up, and from what an earlier one of its name left."""

    def __init__(self, store: Store, worker_id: str, queues: Container[str]) -> None:
        self._store, self._worker_id, self._queues = store, worker_id, queues
        self._given_up: dict[str, int] = {}
        """Tasks whose handler was stopped because the lease could not be kept, with the fence: an attempt, once it lapses."""
        self._inherited: set[tuple[str, int]] = set()
        """Claims, by task and fence, of an earlier worker of the same name: what it had begun is no lost answer."""

    async def inherit(self) -> None:
        """Take note of what is held in this name before the worker has claimed anything."""
        self._inherited = {(task.id, task.fence) for task in await self._held_in_our_name()}

    def given_up(self, task: Task) -> None:
        """This claim was begun, and its handler was stopped."""
        self._given_up[task.id] = task.fence

    async def find(self, known: Container[str], types: Container[str], since: datetime | None) -> list[Task]:
        """Tasks of these types and of our queues that were claimed in this run, and neither known nor ever begun."""
        held = await self._held_in_our_name()
        self._given_up = {task.id: task.fence for task in held if self._given_up.get(task.id) == task.fence}
        return [
            task
            for task in held
            if task.id not in known
            and task.id not in self._given_up
            and task.type in types
            and task.queue in self._queues
            and (task.id, task.fence) not in self._inherited
            and task.started_at is not None
            and since is not None
            and task.started_at >= since
        ]

    async def _held_in_our_name(self) -> list[Task]:
        query = Query(status=TaskStatus.Running, worker_id=self._worker_id, limit=prefetch.LIMIT)
        return (await self._store.find(query)).tasks
