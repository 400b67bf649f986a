"""Keeps leases alive from a thread of its own, which a blocked event loop cannot stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from tenure.errors import StoreError
from tenure.stores.base import WORKER, Hold, Note, Query, Renewal, Store
from tenure.task import TaskStatus
from tenure.worker.attempt import Attempt

log = logging.getLogger("tenure.worker")

CHECK_INTERVAL = 1.0
NOTE_INTERVAL = 10.0


class Heartbeat:
    """Renews every claim of a worker in one batch, at a third of the lease.

    Once a second it also looks for requests to cancel and passes progress on. What it finds is
    told to the worker through `on_lost` and `on_cancel`, which must be safe to call from
    another thread.
    """

    def __init__(
        self,
        store: Store,
        worker_id: str,
        lease: timedelta,
        held: Callable[[], Collection[Attempt]],
        describe: Callable[[], dict[str, Any]],
        on_lost: Callable[[Attempt], None],
        on_cancel: Callable[[Attempt], None],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._lease = lease
        self._held = held
        self._describe = describe
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nap: asyncio.Event | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="tenure-heartbeat", daemon=True)
        self.last_beat = time.monotonic()

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop beating and wait for the thread."""
        self._stopping.set()
        if self._loop is not None and self._nap is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._nap.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        self._loop, self._nap = asyncio.get_running_loop(), asyncio.Event()
        store = self._store.twin()
        renew_every = self._lease.total_seconds() / 3
        next_renewal = next_note = 0.0
        try:
            while not self._stopping.is_set():
                now = time.monotonic()
                try:
                    if now >= next_note:
                        await store.put_note(Note(WORKER, self._worker_id, self._describe()))
                        next_note = now + NOTE_INTERVAL
                    if now >= next_renewal:
                        await self._renew(store, list(self._held()))
                        next_renewal = now + renew_every
                    else:
                        await self._check(store)
                    self._recovered()
                except StoreError as error:
                    self._failed(error)
                    self._give_up_late()
                self.last_beat = time.monotonic()
                await self._sleep(min(CHECK_INTERVAL, renew_every))
            with contextlib.suppress(StoreError):
                await store.put_note(Note(WORKER, self._worker_id))
        finally:
            if store is not self._store:
                await store.close()

    async def _sleep(self, seconds: float) -> None:
        assert self._nap is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nap.wait()

    async def _renew(self, store: Store, attempts: list[Attempt]) -> None:
        if not attempts:
            return
        sent = time.monotonic()
        holds = await store.renew([self._renewal(attempt) for attempt in attempts])
        for attempt, hold in zip(attempts, holds, strict=True):
            if hold is Hold.Lost:
                # A task that was settled while the renewal was on its way is not lost.
                if not attempt.settled:
                    self._on_lost(attempt)
                continue
            attempt.held_for(self._lease, sent)
            if hold is Hold.CancelRequested:
                self._on_cancel(attempt)

    def _renewal(self, attempt: Attempt) -> Renewal:
        progress = attempt.context.take_progress() if attempt.context is not None else None
        return Renewal(attempt.task.id, attempt.task.fence, self._lease, progress)

    async def _check(self, store: Store) -> None:
        """Between renewals: new progress, and requests to cancel."""
        held = list(self._held())
        reporting = [attempt for attempt in held if attempt.context is not None and attempt.context.has_progress]
        await self._renew(store, reporting)
        if not held:
            return
        page = await store.find(
            Query(status=TaskStatus.Running, worker_id=self._worker_id, cancel_requested=True, limit=1000)
        )
        asked = {(task.id, task.fence) for task in page.tasks}
        for attempt in held:
            if (attempt.task.id, attempt.task.fence) in asked:
                self._on_cancel(attempt)

    def _give_up_late(self) -> None:
        """Leases that could not be renewed are given up before they lapse."""
        margin = min(CHECK_INTERVAL, self._lease.total_seconds() / 10)
        for attempt in list(self._held()):
            if time.monotonic() + margin >= attempt.held_until:
                self._on_lost(attempt)

    def _failed(self, error: BaseException) -> None:
        if not self._failing:
            log.warning("cannot renew leases for now, and will keep trying: %s", error)
        self._failing = True

    def _recovered(self) -> None:
        if self._failing:
            log.warning("can renew leases again")
        self._failing = False
