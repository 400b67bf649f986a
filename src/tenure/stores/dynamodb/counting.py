"""Counts of tasks, kept in the same transactions as the tasks, in parts so that few writers meet.

What is counted is what has not ended, and what has ended in which way. How many of the open
ones are running, the index of leases says: there are never more than workers have hands.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tenure.stores.base import Count
from tenure.stores.dynamodb.keys import TIME, Keys
from tenure.stores.dynamodb.table import Action, Table
from tenure.task import ENDED, OPEN, Task, TaskStatus

PARTS = 16
"""How many transactions can count at the same time without meeting."""
OPEN_TASKS = "open"

Tally = Counter[tuple[str, str, str]]


def bucket(task: Task) -> str:
    """What a task counts as."""
    return OPEN_TASKS if task.status in OPEN else task.status.value


def moved(tally: Tally, before: Task | None, after: Task | None) -> None:
    """Take a change into a tally."""
    if before is not None:
        tally[before.queue, before.type, bucket(before)] -= 1
    if after is not None:
        tally[after.queue, after.type, bucket(after)] += 1


class Counts:
    """The counters of one store."""

    def __init__(self, table: Table, keys: Keys) -> None:
        self._table, self._keys = table, keys
        self._busy: Counter[int] = Counter()
        self._random = random.Random()  # noqa: S311 - spreads writers, guards nothing

    @contextmanager
    def actions(self, tally: Tally) -> Iterator[list[Action]]:
        """The writes that add a tally to a part that no other transaction of this process is writing."""
        free = [part for part in range(PARTS) if not self._busy[part]]
        part = self._random.choice(free or range(PARTS))
        self._busy[part] += 1
        try:
            yield [
                self._table.update(
                    self._keys.count(part, queue, type_), {"queue": queue, "job_type": type_}, add=numbers
                )
                for (queue, type_), numbers in _by_lane(tally).items()
            ]
        finally:
            self._busy[part] -= 1

    async def read(self) -> list[Count]:
        """How many tasks there are."""
        parts = [self._table.partition(pk) for pk in self._keys.counts()]
        running = [
            self._table.partition(pk, index=TIME) for pk in self._keys.every(self._keys.leases)
        ]  # fmt: skip
        found = await asyncio.gather(*parts, *running)
        totals: Counter[tuple[str, str, str]] = Counter()
        for item in (item for items in found[: len(parts)] for item in items):
            for status in (OPEN_TASKS, *(status.value for status in ENDED)):
                totals[item["queue"], item["job_type"], status] += item.get(status, 0)
        for item in (item for items in found[len(parts) :] for item in items):
            totals[item["queue"], item["job_type"], TaskStatus.Running.value] += 1
            totals[item["queue"], item["job_type"], OPEN_TASKS] -= 1
        return sorted(
            (
                Count(queue, type_, TaskStatus.Pending if status == OPEN_TASKS else TaskStatus(status), number)
                for (queue, type_, status), number in totals.items()
                if number > 0
            ),
            key=lambda count: (count.queue, count.type, count.status),
        )


def lanes_of(tasks: Iterable[Task]) -> int:
    """How many writes it takes to count these tasks."""
    return len({(task.queue, task.type) for task in tasks})


def _by_lane(tally: Tally) -> dict[tuple[str, str], dict[str, int]]:
    lanes: dict[tuple[str, str], dict[str, int]] = {}
    for (queue, type_, status), number in tally.items():
        if number:
            lanes.setdefault((queue, type_), {})[status] = number
    return lanes
