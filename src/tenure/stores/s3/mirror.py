"""What this process last saw of the segments, with the tag of each version.

Every write names the version that it rests on, so what is outdated here can only make a write
fail, never make it wrong.
"""

from __future__ import annotations

import time
from collections import deque

from tenure.stores.s3.bucket import Listed
from tenure.stores.s3.segments import Segment

MOST_TASKS = 500_000
"""How many tasks are kept in memory; the longest unused segments go first."""
MOST_PAST = 8
"""How many past versions of an object are remembered: a listing is rarely older than the last few."""
MOST_DELETED = 2000
"""Of how many deleted objects; a page of a listing may show a thousand of them."""


class Mirror:
    """Segments by name, and the segment of each task. Threads may share it: it only ever swaps whole entries."""

    def __init__(self) -> None:
        self._segments: dict[str, Segment] = {}
        self._places: dict[str, str] = {}
        self._learnt: dict[str, float] = {}
        self._past: dict[str, tuple[str, ...]] = {}
        self._deleted: deque[str] = deque()
        self._size = 0
        self.highest = 0
        """The highest number in the order of submits that was seen."""

    def get(self, name: str) -> Segment | None:
        return self._segments.get(name)

    def has(self, listed: Listed) -> bool:
        """Whether what a listing shows is what is known, or is certainly past."""
        known = self._segments.get(listed.name)
        return (known is not None and known.etag == listed.etag) or listed.etag in self._past.get(listed.name, ())

    def learnt(self, name: str) -> float:
        """When this was last read or written."""
        return self._learnt.get(name, 0.0)

    def place(self, task_id: str) -> str | None:
        """The segment in which the task was last seen."""
        return self._places.get(task_id)

    def put(self, segment: Segment, before: str | None = None) -> Segment:
        """Keep a version; the one with the tag `before` has given way to it, or to one between."""
        known = self._segments.pop(segment.name, None)
        if known is not None:
            self._size -= len(known.entries)
        self._segments[segment.name] = segment
        self._learnt[segment.name] = time.monotonic()
        if before is not None and before != segment.etag:
            self._past[segment.name] = (before, *self._past.get(segment.name, ()))[:MOST_PAST]
        self._size += len(segment.entries)
        for entry in segment.tasks():
            self._places[entry.task.id] = segment.name
        if segment.entries:
            self.highest = max(self.highest, *(entry.order for entry in segment.entries.values()))
        while self._size > MOST_TASKS and len(self._segments) > 1:
            self.drop(next(iter(self._segments)))
        return segment

    def deleted(self, segment: Segment) -> None:
        """This very version was deleted. A listing that was on its way may still show it, or one before it."""
        past = (segment.etag, *self._past.get(segment.name, ()))[:MOST_PAST]
        self.drop(segment.name)
        self._past[segment.name] = past
        self._deleted.append(segment.name)
        while len(self._deleted) > MOST_DELETED and (name := self._deleted.popleft()) not in self._segments:
            self._past.pop(name, None)

    def drop(self, name: str) -> None:
        """Know nothing of an object any more."""
        known = self._segments.pop(name, None)
        if known is not None:
            self._learnt.pop(name, None)
            self._past.pop(name, None)
            self._size -= len(known.entries)
            for task_id in known.entries:
                if self._places.get(task_id) == name:
                    del self._places[task_id]

    def within(self, folder: str) -> list[str]:
        """The names that are known of a folder."""
        return [name for name in list(self._segments) if name.startswith(folder)]
