"""Keeps leases alive from a thread of its own, which a blocked event loop cannot stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from datetime import timedelta
from typing import Any

from tenure.errors import StoreClosed, StoreUnavailable
from tenure.stores.base import WORKER, Hold, Note, Query, Renewal, Store
from tenure.task import TaskStatus
from tenure.worker import surroundings
from tenure.worker.attempt import Attempt
from tenure.worker.backoff import Outage

log = logging.getLogger("tenure.worker")

CHECK_INTERVAL = 1.0
NOTE_INTERVAL = 10.0
FAREWELL = 5.0
"""Seconds that a worker on its way out waits for the store to take note."""
LONGEST_BEAT = 5.0
"""Seconds that a beat may take on the way to a slow store, however short the lease is."""
WORK = "renew leases"


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
        outage: Outage,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._lease = lease
        self._held = held
        self._describe = describe
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._outage = outage
        self._renew_every = lease.total_seconds() / 3
        self._margin = min(CHECK_INTERVAL, lease.total_seconds() / 10)
        self._next_renewal = self._next_note = 0.0
        self._failing = False
        self._beating: asyncio.Future[None] | None = None
        self._began = 0.0
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ended: Future[None] | None = None
        self.announced: Future[None] = Future()
        """Done when others can see that this worker is there."""
        self.last_beat = surroundings.monotonic()

    def start(self) -> None:
        """Begin to beat."""
        self._ended = surroundings.on_its_own_thread(self._beat, "tenure-heartbeat")

    async def stop(self) -> None:
        """Stop beating and wait for the thread."""
        # A thread that has not come to its loop yet looks at this first.
        self._stopping.set()
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._ended is not None:
            await asyncio.wrap_future(self._ended)

    async def _beat(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        store = self._store.twin()
        try:
            while not self._stopping.is_set():
                try:
                    await self._answered(store)
                    self._outage.worked(WORK)
                    self._failing = False
                except StoreClosed:
                    # Whoever claims tells it, and ends the worker.
                    self._failing = True
                except Exception as error:
                    self._outage.failed(WORK, error)
                    self._failing = True
                self._give_up_late()
                self.last_beat = surroundings.monotonic()
                await self._sleep()
            await self._leave()
            await self._say_goodbye(store)
        finally:
            await self._leave()
            if store is not self._store:
                await store.close()

    async def _say_goodbye(self, store: Store) -> None:
        try:
            async with asyncio.timeout(FAREWELL):
                await store.put_note(Note(WORKER, self._worker_id))
        except Exception as error:
            words = "worker %s could not sign off and is listed for a while: %s"
            log.warning(words, self._worker_id, str(error) or f"no answer within {FAREWELL:g} s")

    async def _once(self, store: Store) -> None:
        now = surroundings.monotonic()
        if now >= self._next_renewal:
            await self._renew(store, list(self._held()))
            self._next_renewal = now + self._renew_every
        else:
            await self._check(store)
        if now >= self._next_note:
            await store.put_note(Note(WORKER, self._worker_id, self._describe()))
            self._next_note = now + NOTE_INTERVAL
            # Whoever waited for it may be cancelled at this very moment, and that cancels it.
            with contextlib.suppress(InvalidStateError):
                self.announced.set_result(None)

    async def _answered(self, store: Store) -> None:
        """One beat, for as long as there is time; a store that does not answer by then is as good as away.

        Such a beat goes on, and the next one waits for it: what it has waited for so far, as for a new connection, is
        not thrown away. Only one that takes far too long gives way to another.
        """
        assert self._stop is not None
        if self._beating is None:
            self._beating, self._began = asyncio.ensure_future(self._once(store)), surroundings.monotonic()
        began, stopping = surroundings.monotonic(), asyncio.ensure_future(self._stop.wait())
        either: set[asyncio.Future[Any]] = {self._beating, stopping}
        while True:
            done, _ = await asyncio.wait(either, timeout=self._patience(), return_when=asyncio.FIRST_COMPLETED)
            late, seconds = self._until_late(), surroundings.monotonic() - began
            # What was claimed meanwhile has a lease that ends later.
            if done or late is None or late <= 0 or seconds >= self._lease.total_seconds():
                break
        stopping.cancel()
        if self._beating.done():
            beating, self._beating = self._beating, None
            beating.result()
        elif not self._stop.is_set():
            if surroundings.monotonic() - self._began > max(self._lease.total_seconds(), LONGEST_BEAT):
                await self._leave()
            msg = f"no answer within {seconds:.1f} s"
            raise StoreUnavailable(msg)

    async def _leave(self) -> None:
        """Wait no longer for a beat that is on its way."""
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    def _patience(self) -> float:
        """How long the store may take: until the first lease has to be given up, also one of a task that is claimed right now.

        Just before a lease ends there is half of the margin left for a last try.
        """
        late = self._until_late()
        if late is None:
            return self._lease.total_seconds() - self._margin
        left = late if late > 0 else late + self._margin / 2
        return left if left > 0 else self._renew_every

    async def _sleep(self) -> None:
        assert self._stop is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._stop.wait()

    def _pause(self) -> float:
        """Seconds until the next beat. What the last one took is part of the time between two renewals."""
        # Where each look is paid for, requests to cancel and progress wait as long as idle workers do.
        seconds = min(max(CHECK_INTERVAL, self._store.poll), self._renew_every)
        if not self._failing:
            seconds = min(seconds, max(self._next_renewal - surroundings.monotonic(), 0))
        late = self._until_late()
        return seconds if late is None or late <= 0 else min(seconds, late)

    def _until_late(self) -> float | None:
        """Seconds until the first lease has to be given up if it is not renewed; None when nothing is held."""
        first = min((attempt.held_until for attempt in list(self._held())), default=None)
        return None if first is None else first - self._margin - surroundings.monotonic()

    async def _renew(self, store: Store, attempts: list[Attempt]) -> None:
        """Renew what each part of the store holds. One that is away holds up no other."""
        parts: dict[Store, list[Attempt]] = {}
        for attempt in attempts:
            parts.setdefault(store.part_of(attempt.task), []).append(attempt)
        answers = await asyncio.gather(
            *(self._renew_in(part, held) for part, held in parts.items()), return_exceptions=True
        )
        errors = [answer for answer in answers if answer is not None]
        for error in errors:
            if len(errors) == len(parts) or not isinstance(error, StoreUnavailable):
                raise error

    async def _renew_in(self, part: Store, attempts: list[Attempt]) -> None:
        sent = surroundings.monotonic()
        holds = await part.renew([self._renewal(attempt) for attempt in attempts])
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
        # The loop of the worker may be just about to end it.
        progress = context.take_progress() if (context := attempt.context) is not None else None
        return Renewal(attempt.task.id, attempt.task.fence, self._lease, progress)

    async def _check(self, store: Store) -> None:
        """Between renewals: new progress, and requests to cancel."""
        held = list(self._held())
        reporting = [attempt for attempt in held if (context := attempt.context) is not None and context.has_progress]
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
        for attempt in list(self._held()):
            if surroundings.monotonic() + self._margin >= attempt.held_until:
                self._on_lost(attempt)
