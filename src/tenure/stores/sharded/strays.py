"""Tasks that were met in another shard than the one their id leads to."""

from __future__ import annotations

import threading

from tenure.stores.sharded.placing import Places
from tenure.task import Task

LIMIT = 100_000


class Strays:
    """Where such tasks were met last; the oldest are forgotten. An id with an ordering key may lead elsewhere."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._shards: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, task_id: str) -> int | None:
        """The shard in which a task was met, if its id does not lead there."""
        return self._shards.get(task_id) if self._shards else None

    def met(self, task: Task, shard: int) -> None:
        """A task was found in this shard."""
        if self._places.of_id(task.id) != shard:
            with self._lock:
                self._shards[task.id] = shard
                if len(self._shards) > LIMIT:
                    del self._shards[next(iter(self._shards))]
        elif self._shards:
            with self._lock:
                self._shards.pop(task.id, None)
