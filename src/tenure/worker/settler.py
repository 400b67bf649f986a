"""Ends whatever has finished, in one batch, and keeps at it while the store is away."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from tenure import payload
from tenure.batching import BYTES, first_batch
from tenure.errors import DamagedRecord, LeaseLost, StoreClosed, StoreUnavailable
from tenure.lifecycle import took_effect
from tenure.observe.logging import about
from tenure.stores.base import Change, Store
from tenure.task import Task
from tenure.worker.attempt import Attempt, Rule
from tenure.worker.backoff import ENDING, Backoff, Outage

log = logging.getLogger("tenure.worker")

BATCH = 1000
OnSettled = Callable[[Sequence[tuple[Attempt, Task | None]]], None]


class Settler:
    """Takes finished attempts and writes their endings.

    The first goes at once; what finishes meanwhile is written together. `on_settled` is told
    the new tasks, with None for one whose claim was lost, so that nothing was written.
    """

    def __init__(self, store: Store, on_settled: OnSettled, outage: Outage) -> None:
        self._store = store
        self._on_settled = on_settled
        self._waiting: list[Attempt] = []
        self._busy: asyncio.Task[None] | None = None
        self._backoff = Backoff(ENDING, outage)
        self._context = contextvars.copy_context()
        self.unsettled = 0

    def put(self, attempt: Attempt, rule: Rule) -> None:
        """Hand in an attempt that is over."""
        attempt.rule, attempt.latest = rule, attempt.task
        self._waiting.append(attempt)
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
                # A batch that is too large for the store is no more than one whose answer never comes.
                number = first_batch(map(_size, self._waiting), BATCH, BYTES)
                batch, self._waiting = self._waiting[:number], self._waiting[number:]
                await self._settle(batch)
                self.unsettled -= len(batch)
        finally:
            self._busy = None

    async def _settle(self, batch: list[Attempt]) -> None:
        """Decide and swap; where another change was faster, read and decide again."""
        reread = False
        while batch:
            try:
                if reread:
                    await self._read(batch)
                # What is over is told once, and not decided again when the rest cannot be written.
                batch, changes = self._decide(batch, await self._store.now())
                batch = await self._write(batch, changes)
                reread = True
                self._backoff.reset()
            except StoreUnavailable as error:
                # The answer was lost, not necessarily the write: look before deciding again.
                reread = True
                await self._backoff.wait(error)
            except StoreClosed as closed:
                self._on_settled([_lost(attempt, str(closed)) for attempt in batch])
                return
            except Exception:
                if len(batch) > 1:
                    for attempt in batch:
                        await self._settle([attempt])
                    return
                log.exception("the ending of task %s cannot be stored", batch[0].task.id)
                self._on_settled([_lost(batch[0], "its ending cannot be stored")])
                return

    def _decide(self, batch: list[Attempt], now: datetime) -> tuple[list[Attempt], list[Change]]:
        """How each attempt ends. Tells those that are over, and returns the others with what is to be written."""
        settled: list[tuple[Attempt, Task | None]] = []
        ended: list[Attempt] = []
        changes: list[Change] = []
        for attempt in batch:
            task = attempt.latest
            if task is None:
                settled.append(_lost(attempt, "it is gone"))
                continue
            if attempt.sent is not None and took_effect(attempt.sent, task):
                settled.append((attempt, attempt.sent))
                continue
            try:
                after = attempt.end(task, now)
            except LeaseLost as lost:
                settled.append(_lost(attempt, str(lost)))
                continue
            if after is task:
                settled.append((attempt, task))
                continue
            attempt.sent = after
            ended.append(attempt)
            changes.append(Change(task, after))
        if settled:
            self._on_settled(settled)
        return ended, changes

    async def _write(self, ended: list[Attempt], changes: list[Change]) -> list[Attempt]:
        """Write the ends; return the attempts whose task changed meanwhile."""
        if not changes:
            return []
        fitted = await self._store.swap(changes)
        self._on_settled([(attempt, attempt.sent) for attempt, fits in zip(ended, fitted, strict=True) if fits])
        return [attempt for attempt, fits in zip(ended, fitted, strict=True) if not fits]

    async def _read(self, batch: list[Attempt]) -> None:
        ids = [attempt.task.id for attempt in batch]
        try:
            tasks = await self._store.get(ids)
        except DamagedRecord as damage:
            if len(batch) == 1:
                log.error("%s", damage)
                tasks = [None]
            else:
                for attempt in batch:
                    await self._read([attempt])
                return
        for attempt, task in zip(batch, tasks, strict=True):
            attempt.latest = task


def _size(attempt: Attempt) -> int:
    """About how many bytes its end sends: some stores are sent the whole record again, with its input."""
    return payload.size(attempt.output) + payload.size(attempt.task.input_json)


def _lost(attempt: Attempt, why: str) -> tuple[Attempt, None]:
    lost = attempt.task
    fields = {**about(lost), "what": "lost", "why": why}
    log.warning("task %s was not ended by this worker: %s", lost.id, why, extra=fields)
    return attempt, None
