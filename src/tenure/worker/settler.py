"""Ends whatever has finished, in one batch, and keeps at it while the store is away."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable

from tenure.errors import DamagedRecord, LeaseLost, StoreUnavailable
from tenure.lifecycle import took_effect
from tenure.observe.logging import about
from tenure.stores.base import Change, Store
from tenure.task import Task
from tenure.worker.attempt import Attempt, Rule
from tenure.worker.backoff import Backoff, Outage

log = logging.getLogger("tenure.worker")

BATCH = 1000
OnSettled = Callable[[Attempt, Task | None], None]


class Ending:
    """An attempt that is over, the rule that ends it, and what is known of its task."""

    __slots__ = ("attempt", "rule", "sent", "task")

    def __init__(self, attempt: Attempt, rule: Rule) -> None:
        self.attempt = attempt
        self.rule = rule
        self.task: Task | None = attempt.task
        self.sent: Task | None = None


class Settler:
    """Takes finished attempts and writes their endings.

    The first goes at once; what finishes meanwhile is written together. `on_settled` is told
    the new task, or None when the claim was lost and nothing was written.
    """

    def __init__(self, store: Store, on_settled: OnSettled, outage: Outage) -> None:
        self._store = store
        self._on_settled = on_settled
        self._waiting: list[Ending] = []
        self._busy: asyncio.Task[None] | None = None
        self._backoff = Backoff("end tasks", outage)
        self._context = contextvars.copy_context()
        self.unsettled = 0

    def put(self, attempt: Attempt, rule: Rule) -> None:
        """Hand in an attempt that is over."""
        self._waiting.append(Ending(attempt, rule))
        self.unsettled += 1
        if self._busy is None:
            # An attempt hands in its end: what its handler and observers left in context variables stays behind.
            self._busy = asyncio.create_task(self._run(), name="tenure-settler", context=self._context.copy())

    async def drain(self, patience: float) -> None:
        """Return when everything handed in is written, or when the store has been away for too long."""
        while self._busy is not None:
            done, _ = await asyncio.wait([self._busy], timeout=patience)
            if not done:
                log.error("%d endings could not be stored; their leases will lapse", self.unsettled)
                self._busy.cancel()
                await asyncio.wait([self._busy])
                return

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                await self._settle(batch)
                self.unsettled -= len(batch)
        finally:
            self._busy = None

    async def _settle(self, batch: list[Ending]) -> None:
        """Decide and swap; where another change was faster, read and decide again."""
        reread = False
        while batch:
            try:
                if reread:
                    await self._read(batch)
                batch = await self._write(batch)
                reread = True
                self._backoff.reset()
            except StoreUnavailable as error:
                # The answer was lost, not necessarily the write: look before deciding again.
                reread = True
                await self._backoff.wait(error)
            except Exception:
                if len(batch) > 1:
                    for ending in batch:
                        await self._settle([ending])
                    return
                log.exception("the ending of task %s cannot be stored", batch[0].attempt.task.id)
                self._tell(batch[0], None, "its ending cannot be stored")
                return

    async def _write(self, batch: list[Ending]) -> list[Ending]:
        """Write what can be written; return the endings whose task changed meanwhile."""
        now = await self._store.now()
        open_ends, changes = [], []
        for ending in batch:
            task = ending.task
            if task is None:
                self._tell(ending, None, "it is gone")
                continue
            if ending.sent is not None and took_effect(ending.sent, task):
                self._tell(ending, ending.sent)
                continue
            try:
                after = ending.rule(task, now)
            except LeaseLost as lost:
                self._tell(ending, None, str(lost))
                continue
            if after is task:
                self._tell(ending, task)
                continue
            ending.sent = after
            open_ends.append(ending)
            changes.append(Change(task, after))
        if not changes:
            return []
        fitted = await self._store.swap(changes)
        missed = []
        for ending, fits in zip(open_ends, fitted, strict=True):
            if fits:
                self._tell(ending, ending.sent)
            else:
                missed.append(ending)
        return missed

    async def _read(self, batch: list[Ending]) -> None:
        ids = [ending.attempt.task.id for ending in batch]
        try:
            tasks = await self._store.get(ids)
        except DamagedRecord as damage:
            if len(batch) == 1:
                log.error("%s", damage)
                tasks = [None]
            else:
                for ending in batch:
                    await self._read([ending])
                return
        for ending, task in zip(batch, tasks, strict=True):
            ending.task = task

    def _tell(self, ending: Ending, task: Task | None, why: str = "") -> None:
        if task is None:
            lost = ending.attempt.task
            log.warning(
                "task %s was not ended by this worker: %s", lost.id, why, extra={**about(lost), "event": "lost"}
            )
        self._on_settled(ending.attempt, task)
