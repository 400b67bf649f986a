"""Which segment a new task goes to, and its place in the order of submits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from tenure.payload import size
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.names import LONG, attention, fresh_tail, lane_name, segment_name, shard_for, tail_of
from tenure.stores.s3.segments import Entry
from tenure.submission import Submission
from tenure.task import Task, TaskStatus
from tenure.times import to_micros

SEGMENT = 1000
SEGMENT_BYTES = 4_000_000


class Placing:
    """Names segments for batches, and counts submits."""

    def __init__(self, mirror: Mirror, shards: Callable[[], int]) -> None:
        self._mirror, self._shards = mirror, shards
        self._lock = threading.Lock()
        self._last = 0

    def names(self, submissions: Sequence[Submission], now: datetime) -> list[str]:
        """The segment of each: together what has one priority and is due about the same time."""
        return self.names_of([submission.task for submission in submissions], now)

    def names_of(self, tasks: Sequence[Task], now: datetime) -> list[str]:
        groups: dict[object, list[list[int]]] = {}
        sizes: dict[object, int] = {}
        names: list[str] = [""] * len(tasks)
        for number, task in enumerate(tasks):
            if task.ordering_key is not None:
                names[number] = lane_name(task.ordering_key, self._shards())
                continue
            group = task.priority, _moment(task) - now > LONG
            chunks = groups.setdefault(group, [[]])
            sizes[group] = sizes.get(group, 0) + size(task.input_json)
            if len(chunks[-1]) >= SEGMENT or (chunks[-1] and sizes[group] > SEGMENT_BYTES):
                chunks.append([])
                sizes[group] = size(task.input_json)
            chunks[-1].append(number)
        used: set[str] = set()
        for chunks in groups.values():
            for chunk in chunks:
                name = self._name([tasks[number] for number in chunk], now, used)
                used.add(name)
                for number in chunk:
                    names[number] = name
        return names

    def _name(self, tasks: list[Task], now: datetime, used: set[str]) -> str:
        tail = next((tail for task in tasks if (tail := tail_of(task.id)) is not None), None) or fresh_tail()
        shard = shard_for(tail, self._shards())
        earliest, earlier = min(map(_moment, tasks)), 0
        while (name := segment_name(shard, tasks[0].priority, earliest, tail, now, earlier)) in used:
            earlier += 1
        return name

    def is_known(self, name: str) -> bool:
        return self._mirror.get(name) is not None

    def entries(self, tasks: Sequence[Task], now: datetime) -> list[Entry]:
        """The tasks with the next numbers of the order of submits."""
        with self._lock:
            first = max(self._last + 1, self._mirror.highest + 1, to_micros(now) * 1000)
            self._last = first + len(tasks) - 1
        return [Entry(first + number, task) for number, task in enumerate(tasks)]


def _moment(task: Task) -> datetime:
    """When a task needs attention; for a restored one that is not pending, that is at once."""
    return attention(task) if task.status is TaskStatus.Pending else task.created_at
