"""What every operation works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tenure.stores.etcd.client import Client
from tenure.stores.etcd.layout import CHANGED, SUBMITTED, Layout, lane_of
from tenure.stores.etcd.records import Memory, Stored, read_tasks
from tenure.stores.etcd.writing import Batch, Outcome, Writer
from tenure.task import Task, TaskStatus

BYTES_LIMIT = 1_000_000
"""Bytes of records in one transaction; a server takes a request of 1.5 MiB unless it is told otherwise."""


class Database:
    """One handle on a store: where its keys are, how to read and write them, and what was seen last."""

    def __init__(self, client: Client, layout: Layout, clock: Callable[[], datetime | None]) -> None:
        self.client, self.layout = client, layout
        self.writer = Writer(client, layout, clock)
        self.memory = Memory()

    async def read(self, ops: Sequence[Any]) -> list[Any]:
        """The keys that each of these reads finds."""
        return [answer.response_range.kvs for answer in await self.client.read(ops)]

    async def tasks(self, ids: Sequence[str]) -> list[Stored | None]:
        """The tasks with these ids, in that order."""
        return await read_tasks(self.client, self.layout, self.memory, ids)

    async def commit(self, batch: Batch) -> Outcome:
        """Make a transaction."""
        return await self.writer.commit(batch)

    def move(self, batch: Batch, before: Task | None, after: Task | None, place: bytes) -> None:
        """Let a transaction put a task, or its next version, in the place of another."""
        layout = self.layout
        old = {} if before is None else layout.entries(before, place)
        new = {} if after is None else layout.entries(after, place)
        batch.replace(old, new)
        for task, change in ((before, -1), (after, 1)):
            if task is not None:
                batch.count(task, change)
        task = after or before
        assert task is not None
        if after is not None and after.status is TaskStatus.Pending:
            batch.puts[layout.lane(lane_of(after))] = b""
        if task.ordering_key is not None and not (before and after and before.status is after.status):
            self._unsettle(batch, before, task.ordering_key, place)
        batch.puts[layout.news(SUBMITTED if before is None else CHANGED)] = b""

    def _unsettle(self, batch: Batch, before: Task | None, ordering_key: str, place: bytes) -> None:
        """Something about the tasks of a key has changed: whose turn it is, is found out by the next claim."""
        batch.puts[self.layout.unsettled(ordering_key)] = b""
        if before is not None and before.status is TaskStatus.Running:
            batch.deletes.add(self.layout.turn(ordering_key))
        if before is not None and before.status is TaskStatus.Pending:
            batch.deletes.add(self.layout.due(before, place))
