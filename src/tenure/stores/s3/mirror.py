"""What this process last saw of the segments, with the tag of each version.

Every write names the version that it rests on, so what is outdated here can only make a write
fail, never make it wrong.
"""

from __future__ import annotations

import time

from tenure.stores.s3.bucket import Listed
from tenure.stores.s3.segments import Segment

MOST_TASKS = 500_000
"""How many tasks are kept in memory; the longest unused segments go first."""


class Mirror:
    """Segments by name, and the segment of each task. Threads may share it: it only ever swaps whole entries."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}
        self._places: dict[str, str] = {}
        self._learnt: dict[str, float] = {}
        self._size = 0
        self.highest = 0
        """The highest number in the order of submits that was seen."""

    def get(self, name: str) -> Segment | None:
        return self._segments.get(name)

    def has(self, listed: Listed) -> bool:
        """Whether what is known is what a listing shows, or was learnt after the listing was asked for."""
        known = self._segments.get(listed.name)
        return known is not None and (known.etag == listed.etag or self._learnt.get(listed.name, 0.0) > listed.asked)

    def learnt(self, name: str) -> float:
        """When this was last read or written."""
        return self._learnt.get(name, 0.0)

    def place(self, task_id: str) -> str | None:
        """The segment in which the task was last seen."""
        return self._places.get(task_id)

    def put(self, segment: Segment) -> Segment:
        known = self._segments.pop(segment.name, None)
        if known is not None:
            self._size -= len(known.entries)
        self._segments[segment.name] = segment
        self._learnt[segment.name] = time.monotonic()
        self._size += len(segment.entries)
        for entry in segment.tasks():
            self._places[entry.task.id] = segment.name
        if segment.entries:
            self.highest = max(self.highest, *(entry.order for entry in segment.entries.values()))
        while self._size > MOST_TASKS and len(self._segments) > 1:
            self.drop(next(iter(self._segments)))
        return segment

    def drop(self, name: str) -> None:
        known = self._segments.pop(name, None)
        if known is not None:
            self._learnt.pop(name, None)
            self._size -= len(known.entries)
            for task_id in known.entries:
                if self._places.get(task_id) == name:
                    del self._places[task_id]

    def within(self, folder: str) -> list[str]:
        """The names that are known of a folder."""
        return [name for name in list(self._segments) if name.startswith(folder)]
