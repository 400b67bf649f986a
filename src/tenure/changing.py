"""Changing what is stored: read, decide by the rule, swap; where another change was faster, read and decide again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from tenure.errors import ConcurrentChange, StoreUnavailable, TaskNotFound, TenureError
from tenure.observe.events import Events
from tenure.stores.base import Change, Store
from tenure.task import Task

BATCH = 200
"""How many tasks are read at once; each may be as large as the store takes."""
TRIES = 100

Rule = Callable[[Task, datetime], Task]
Outcome = Task | TenureError
"""The version that stands there now, or why it could not be changed."""


class Changing:
    """Applies one rule to any number of tasks, in batches. What is wrong with one is told of that one alone."""

    def __init__(self, store: Store, events: Events, rule: Rule) -> None:
        self._store = store
        self._events = events
        self._rule = rule
        self._outcomes: dict[str, Outcome] = {}

    async def change(self, ids: Sequence[str]) -> dict[str, Outcome]:
        """What has become of each."""
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), BATCH):
            left = wanted[start : start + BATCH]
            for _ in range(TRIES):
                if not left:
                    break
                left = await self._round(left)
            self._outcomes |= {task_id: ConcurrentChange(task_id) for task_id in left}
        return self._outcomes

    async def _round(self, ids: list[str]) -> list[str]:
        """Read, decide and swap; returns those that another change was faster with."""
        groups: dict[Store, list[Change]] = {}
        for task in await self._read(ids):
            part = self._store.part_of(task)
            try:
                after = self._rule(task, await part.now())
            except TenureError as refusal:
                self._outcomes[task.id] = refusal
                continue
            if after is task:
                self._outcomes[task.id] = task
            else:
                groups.setdefault(part, []).append(Change(task, after))
        return [task_id for changes in groups.values() for task_id in await self._swap(changes)]

    async def _read(self, ids: list[str]) -> list[Task]:
        try:
            found = await self._store.get(ids)
        except TenureError as error:
            if len(ids) > 1:
                # A record that cannot be read, or a part that is away, is no trouble of the others.
                half = len(ids) // 2
                return [*await self._read(ids[:half]), *await self._read(ids[half:])]
            self._outcomes[ids[0]] = error
            return []
        self._outcomes |= {
            task_id: TaskNotFound(task_id) for task_id, task in zip(ids, found, strict=True) if task is None
        }
        return [task for task in found if task is not None]

    async def _swap(self, changes: list[Change]) -> list[str]:
        try:
            fitted = await self._store.swap(changes)
        except StoreUnavailable as error:
            self._events.in_doubt((change.after for change in changes), self._store)
            self._outcomes |= {change.after.id: error for change in changes}
            return []
        except TenureError as error:
            if len(changes) > 1:
                half = len(changes) // 2
                return [*await self._swap(changes[:half]), *await self._swap(changes[half:])]
            self._outcomes[changes[0].after.id] = error
            return []
        done = [change.after for change, fits in zip(changes, fitted, strict=True) if fits]
        self._outcomes |= {task.id: task for task in done}
        if self._events.subscribers:
            self._events.happened(done)
        return [change.after.id for change, fits in zip(changes, fitted, strict=True) if not fits]
