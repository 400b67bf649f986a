"""Which shard keeps what.

Everything has one of 4,096 buckets: a task that of its ordering key, else the one that its id names; a key's
record that of its own name. A bucket is kept by the shard with the highest hash of both (rendezvous hashing), so
that another shard takes an equal part from each of the others, and nothing else moves.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from tenure.ids import bucket, bucket_of
from tenure.task import Task


def name_of(number: int) -> str:
    """The name of a shard, by which it takes part in the hashing."""
    return f"queue-group-{number}"


class Places:
    """The places of a queue of so many shards."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._keepers: dict[int, int] = {}
        # A task is looked up when it is claimed, when it is renewed and when it ends.
        self.of_id = lru_cache(10_000)(self._of_id)
        """The shard that an id leads to."""

    def of_bucket(self, number: int) -> int:
        """The shard that keeps a bucket."""
        keeper = self._keepers.get(number)
        if keeper is None:
            keeper = self._keepers[number] = max(range(self.count), key=lambda shard: _weight(shard, number))
        return keeper

    def of_text(self, text: str) -> int:
        """The shard of a key."""
        return self.of_bucket(bucket(text))

    def _of_id(self, task_id: str) -> int:
        return self.of_bucket(bucket_of(task_id))

    def of_task(self, task: Task) -> int:
        """The shard that keeps a task. All tasks of an ordering key are in one, because it has to see their order."""
        return self.of_id(task.id) if task.ordering_key is None else self.of_text(task.ordering_key)


def _weight(shard: int, number: int) -> bytes:
    return hashlib.sha256(f"{name_of(shard)}/{number}".encode()).digest()
