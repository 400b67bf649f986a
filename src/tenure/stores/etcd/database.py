"""What every operation works with."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tenure.errors import DamagedRecord
from tenure.stores.etcd.client import TXN, Client
from tenure.stores.etcd.layout import CHANGED, SUBMITTED, Layout, lane_of, moment, pack
from tenure.stores.etcd.leases import Leases
from tenure.stores.etcd.records import Memory, Stored, log, read_tasks
from tenure.stores.etcd.requests import Txn, delete
from tenure.stores.etcd.writing import Batch, Outcome, Writer
from tenure.task import Task, TaskStatus

BYTES_LIMIT = 1_000_000
"""Bytes of records in one transaction; a server takes a request of 1.5 MiB unless it is told otherwise."""


class Database:
    """One handle on a store: where its keys are, how to read and write them, and what was seen last."""

    def __init__(
        self,
        client: Client,
        layout: Layout,
        clock: Callable[[], datetime | None],
        hear_of: Callable[[datetime], None],
    ) -> None:
        self.client, self.layout, self.hear_of = client, layout, hear_of
        self.writer = Writer(client, layout, clock)
        self.memory = Memory()
        self._news = layout.folder(b"news", CHANGED) + secrets.token_hex(8).encode()
        self._told = b""
        self.leases = Leases()

    async def read(self, ops: Sequence[Any]) -> list[Any]:
        """The keys that each of these reads finds."""
        return [answer.response_range.kvs for answer in await self.client.read(ops)]

    async def look(self, ids: Sequence[str]) -> list[Stored | DamagedRecord | None]:
        """The tasks with these ids, in that order; where one cannot be read, why.

        What is done to them next is not earlier than what was done last.
        """
        found = await read_tasks(self.client, self.layout, self.memory, ids)
        if latest := max((stored.task.updated_at for stored in found if isinstance(stored, Stored)), default=None):
            self.hear_of(latest)
        return found

    async def tasks(self, ids: Sequence[str]) -> list[Stored | None]:
        """The tasks with these ids, in that order, if all of them can be read."""
        sound: list[Stored | None] = []
        for stored in await self.look(ids):
            if isinstance(stored, DamagedRecord):
                raise stored
            sound.append(stored)
        return sound

    async def sound(self, ids: Sequence[str]) -> list[Stored | None]:
        """The tasks with these ids, in that order; None for those that are gone or cannot be read."""
        found = await self.look(ids)
        for damage in found:
            if isinstance(damage, DamagedRecord):
                log.warning("%s", damage)
        return [stored if isinstance(stored, Stored) else None for stored in found]

    async def commit(self, batch: Batch) -> Outcome:
        """Make a transaction."""
        return await self.writer.commit(batch)

    def move(self, batch: Batch, before: Task | None, after: Task | None, place: bytes) -> None:
        """Let a transaction put a task, or its next version, in the place of another."""
        layout = self.layout
        old = {} if before is None else layout.entries(before, place)
        new = {} if after is None else layout.entries(after, place)
        batch.replace(old, new)
        if after is None:
            assert before is not None
            batch.deletes.add(layout.task(before.id))
        else:
            batch.puts[layout.task(after.id)] = pack(after, place)
        for task, change in ((before, -1), (after, 1)):
            if task is not None:
                batch.count(task, change)
        task = after or before
        assert task is not None
        if after is not None and after.status is TaskStatus.Pending:
            batch.puts[layout.lane(lane_of(after))] = b""
        if task.ordering_key is not None and not (before and after and before.status is after.status):
            self._unsettle(batch, before, task, place)
        if before is None:
            batch.puts[layout.news(SUBMITTED)] = b""
        else:
            self.tell(batch, moment(task.updated_at))

    def tell(self, batch: Batch, at: bytes = b"") -> None:
        """Let a transaction say that something has changed, and at what time.

        Each handle has a key of its own for it, so that no later time is hidden behind an earlier one.
        """
        self._told = max(self._told, at)
        batch.puts[self._news] = self._told

    async def hush(self) -> None:
        """Take away what this handle has told: it tells no more."""
        if self._told:
            await self.client.tell(TXN, Txn(success=[delete(self._news)]))

    def _unsettle(self, batch: Batch, before: Task | None, task: Task, place: bytes) -> None:
        """Something about the tasks of a key has changed: whose turn it is, is found out by the next claim."""
        assert task.ordering_key is not None
        batch.puts[self.layout.unsettled(task.ordering_key)] = b""
        if before is not None and before.status is TaskStatus.Running:
            batch.deletes.add(self.layout.turn(task.ordering_key))
        if before is not None and before.status is TaskStatus.Pending:
            batch.deletes.add(self.layout.due(before, place))
