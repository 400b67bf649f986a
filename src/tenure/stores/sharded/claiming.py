"""Claiming from several shards: each claim begins at another one, and asks further ones while slots are free."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tenure import lifecycle
from tenure.errors import StoreUnavailable, TenureError
from tenure.stores.base import Change, Claimed, Want
from tenure.stores.sharded.shard import Shard
from tenure.stores.sharded.strays import Strays
from tenure.task import Task

log = logging.getLogger("tenure.shards")

PATIENCE = 5.0
"""Seconds that a claim waits for one shard, or a third of the lease if that is less."""


class Claims:
    """Whose turn it is, and which answers are still on their way."""

    def __init__(self, shards: Sequence[Shard], first: int) -> None:
        self._shards = shards
        self._next = first
        self._late: dict[int, asyncio.Task[Claimed]] = {}
        self._unsure: set[int] = set()

    async def claim(self, want: Want, strays: Strays) -> Claimed:
        """Claim from the shard whose turn it is, and from the next ones if it has too few."""
        order = self._in_turn()
        tasks: list[Task] = []
        overdue: list[Task] = []
        due: list[datetime] = []
        away: StoreUnavailable | None = None
        answered = unsure = mixed = False
        for shard in order:
            if tasks and len(tasks) >= want.count:
                break
            try:
                claimed = await self._ask(shard, msgspec.structs.replace(want, count=want.count - len(tasks)))
            except StoreUnavailable as error:
                away = error
                continue
            answered = True
            if shard.number in self._unsure:
                self._unsure.discard(shard.number)
                unsure = True
            for task in claimed.tasks:
                strays.met(task, shard.number)
            mixed = mixed or bool(tasks and claimed.tasks)
            tasks += claimed.tasks
            overdue += claimed.overdue
            due += [claimed.next_due] if claimed.next_due is not None else []
            unsure = unsure or claimed.unsure
        if away is not None and not answered:
            raise away
        if mixed:
            tasks.sort(key=_turn)
        return Claimed(tasks, overdue, None if tasks else min(due, default=None), unsure)

    def _in_turn(self) -> list[Shard]:
        """All shards, beginning with another one each time. Those that did not answer of late are left alone for a moment."""
        start, self._next = self._next, (self._next + 1) % len(self._shards)
        order = [*self._shards[start:], *self._shards[:start]]
        there = [shard for shard in order if shard.health.can_be_asked and shard.number not in self._late]
        return there or [shard for shard in order if shard.number not in self._late] or order[:1]

    async def _ask(self, shard: Shard, want: Want) -> Claimed:
        began = time.monotonic()
        asked = asyncio.ensure_future(shard.claim(want))
        patience = min(PATIENCE, want.lease.total_seconds() / 3)
        try:
            done, _ = await asyncio.wait([asked], timeout=patience)
        except asyncio.CancelledError:
            self._leave(shard, asked)
            raise
        if not done:
            self._leave(shard, asked)
            error = StoreUnavailable(f"{shard.name} did not answer within {patience:g} s.")
            shard.health.failed(error, began)
            raise error
        try:
            return asked.result()
        except StoreUnavailable:
            self._unsure.add(shard.number)
            raise

    def _leave(self, shard: Shard, asked: asyncio.Task[Claimed]) -> None:
        """Nobody waits for this answer any more: what it brings is given back."""

        async def give_back() -> None:
            try:
                claimed = await asked
                now = await shard.now()
                await shard.swap(
                    [
                        Change(task, lifecycle.release(task, task.fence, now, "the answer to its claim came too late"))
                        for task in claimed.tasks
                    ]
                )
            except TenureError as error:
                self._unsure.add(shard.number)
                log.debug("a late claim of %s could not be given back: %s", shard.name, error)
            finally:
                self._late.pop(shard.number, None)

        self._late[shard.number] = asked
        giving_back = asyncio.ensure_future(give_back())
        asked.add_done_callback(lambda _: giving_back)

    async def close(self) -> None:
        """Stop waiting for answers that are late."""
        for asked in self._late.values():
            asked.cancel()


def _turn(task: Task) -> tuple[int, datetime, datetime, str]:
    return -task.priority, task.available_at, task.created_at, task.id
