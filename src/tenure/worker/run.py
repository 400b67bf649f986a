"""One run of a worker: the claimer, its slots, and the helpers around them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import os
import random
import socket
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenure.errors import DamagedRecord, StoreError, StoreUnavailable
from tenure.lifecycle import Completed
from tenure.observe.events import Failed, Lost, OnEnd, Subscriber, under_way
from tenure.observe.logging import about, tell_failure, tell_lapses
from tenure.retry import RetryPolicy
from tenure.stores.base import Claimed, Hold, Renewal, Want
from tenure.sweeper import Sweeper
from tenure.task import Task
from tenure.worker import surroundings
from tenure.worker.attempt import Attempt, Middleware, Rule, Stop, released
from tenure.worker.backoff import Backoff, Outage
from tenure.worker.context import Context
from tenure.worker.executors import Executors
from tenure.worker.handlers import INHERIT, Handler
from tenure.worker.heartbeat import Heartbeat
from tenure.worker.prefetch import Prefetch
from tenure.worker.settlers import settler_of
from tenure.worker.shutdown import LAST_WORDS, Shutdown
from tenure.worker.signals import listening
from tenure.worker.unanswered import Unanswered

if TYPE_CHECKING:
    from tenure.worker.worker import Worker

log = logging.getLogger("tenure.worker")

UNSETTLED_LIMIT = 5000
BUFFER_PATIENCE = 1.0
A_MOMENT = 0.1
"""Seconds that an answer takes which is there already."""


class Run:
    """One call of `Worker.run`: the claimer, its slots and its helpers."""

    def __init__(
        self,
        worker: Worker,
        sweeper: Sweeper,
        handlers: Mapping[str, Handler],
        middleware: list[Middleware],
        until_idle: bool,
        max_tasks: int | None,
    ) -> None:
        self.worker, self.handlers, self.middleware = worker, handlers, middleware
        self.store, self.events = worker.queue.store, worker.queue.events
        self.until_idle, self.max_tasks = until_idle, max_tasks
        self.loop, self.context = asyncio.get_running_loop(), contextvars.copy_context()
        self.task = asyncio.current_task()
        self.cancels = self._cancels()
        self.attempts_context = self.context
        self.welcomed: tuple[Subscriber, ...] = ()
        """The subscribers who have prepared the context that attempts begin with."""
        self.started_at: datetime | None = None
        self.held: dict[str, Attempt] = {}
        self.buffer: deque[Attempt] = deque()
        self.running: set[Attempt] = set()
        self.unanswered = Unanswered(self.store, worker.worker_id, worker.queues)
        self.executors = Executors(worker.concurrency)
        self.outage = Outage()
        self.settler = settler_of(self.store, self._settled, self.outage)
        self.sweeper = sweeper
        self.heartbeat = Heartbeat(
            self.store,
            worker.worker_id,
            worker.lease,
            self.held.values,
            self._describe,
            self._on_lost,
            self._on_cancel,
            self.outage,
        )
        self.want = Want(
            worker.worker_id,
            worker.queues,
            {
                type_: None if (policy := self._policy(handler)) is None else policy.max_attempts
                for type_, handler in handlers.items()
            },
            0,
            worker.lease,
        )
        self.claimed = self.ended = 0
        self.prefetch = Prefetch()
        self.stopping = False
        self.changed = asyncio.Event()
        self.shutdown = Shutdown(self.running, self.changed)
        self.nap: asyncio.Future[None] | None = None
        self.claiming: asyncio.Task[Claimed] | None = None
        self.hearing: asyncio.Future[Claimed] | None = None
        """The answer to a claim, as long as it is waited for."""
        self.unsure = False
        """Whether tasks may be held in our name that we have not been told of."""
        self.deadline: float | None = None
        """Until when the loop lets what was begun come to its end, once the worker is to stop."""
        self.finishing = self.hurried = False
        self.hooks: set[asyncio.Task[None]] = set()
        self.last_hooks: asyncio.Timeout | None = None

    # -- the life of a run

    async def work(self) -> int:
        """Claim, run and settle until told to stop; returns the number of attempts that were ended."""
        worker = self.worker
        self.started_at = await self._first_answer()
        await worker.call_hooks("startup")
        log.info("worker %s takes %s from %s", worker.worker_id, ", ".join(self.handlers), ", ".join(worker.queues))
        try:
            # Before others can see that this worker is there, and until they no longer do.
            with listening(self._on_signal):
                await self._serve()
        finally:
            self.executors.close()
            await self._finish_hooks()
            if self.events.subscribers:
                self.events.flush()
                await self.events.look(worker.queue)
            await self._call_last_hooks()
            log.info("worker %s stopped after %d tasks", worker.worker_id, self.ended)
        return self.ended

    async def _serve(self) -> None:
        self.heartbeat.start()
        beside = [asyncio.create_task(self._sweep_now_and_then(), name="tenure-sweeper")]
        if self.events.subscribers:
            self._welcome()
            beside.append(asyncio.create_task(self._look_now_and_then(), name="tenure-observe"))
        try:
            await self._claim_until_stopped()
            await self._finish()
        except BaseException:
            self.stop(now=True)
            await self._finish()
            raise
        finally:
            for helper in beside:
                helper.cancel()
            await asyncio.wait(beside)
            await self.heartbeat.stop()
            await self._see_off_claim()

    async def _finish_hooks(self) -> None:
        """Hooks have as long as handlers, or a moment at least: what hangs in one must not keep the worker from ending."""
        try:
            await self.shutdown.wait_for(self.hooks, self._left(LAST_WORDS))
        finally:
            for hook in self.hooks:
                hook.cancel()
        await self.shutdown.wait_for(self.hooks, LAST_WORDS)
        if self.hooks:
            log.warning("%d hooks go on although they were cancelled, and are left behind", len(self.hooks))
            for hook in self.hooks:
                _leave_alone(hook)

    async def _call_last_hooks(self) -> None:
        """In the task of those at the start: what one of them has entered, as a task group, nobody else can leave."""
        try:
            async with asyncio.timeout(LAST_WORDS if self.hurried else self._left(LAST_WORDS)) as self.last_hooks:
                await self.worker.call_hooks("shutdown")
        except TimeoutError:
            log.warning("the shutdown hooks of worker %s took too long and were cancelled", self.worker.worker_id)
        finally:
            self.last_hooks = None

    async def _first_answer(self) -> datetime | None:
        """The time, from a store that may not be there yet; None if the worker was stopped before it was."""
        backoff = Backoff("reach the store", self.outage)
        while not self.stopping:
            try:
                now = await self.store.now()
                if self.worker.is_named:
                    await self._look_for_namesakes()
                    await self.unanswered.inherit()
            except StoreUnavailable as error:
                await self._sleep(backoff.wait(error))
            else:
                backoff.reset()
                return now
        return None

    async def _look_for_namesakes(self) -> None:
        """What is held in our name is taken for ours, so two who bear it would take each other's tasks for their own."""
        here = socket.gethostname(), os.getpid()
        for other in await self.worker.queue.workers():
            if other.id == self.worker.worker_id and (other.host, other.pid) != here:
                words = "process %d on %s gave a sign of life as worker %s a moment ago; give each worker a name of its own, or none"
                log.warning(words, other.pid, other.host, other.id)

    def stop(self, *, now: bool = False) -> None:
        """Claim no more; with `now`, cancel what runs."""
        self.stopping = True
        self._set_deadline()
        if now:
            self.hurried = True
            self.shutdown.hurry()
            if (hooks := self.last_hooks) is not None and not hooks.expired():
                hooks.reschedule(min(hooks.when() or math.inf, self.loop.time() + LAST_WORDS))
        if self.hearing is not None:
            self.loop.call_later(LAST_WORDS, self.hearing.cancel)
        self.changed.set()
        if self.nap is not None:
            self.nap.cancel()

    def _set_deadline(self) -> None:
        if self.deadline is None:
            self.deadline = self.loop.time() + self.worker.grace

    def _left(self, least: float) -> float:
        """Seconds of the grace that are left. It is one for all: claim, handlers, endings and hooks."""
        self._set_deadline()
        assert self.deadline is not None
        return max(self.deadline - self.loop.time(), least)

    def _cancels(self) -> int:
        return 0 if self.task is None else self.task.cancelling()

    def _is_cancelled(self) -> bool:
        """Whether whoever called `run` does not want it to go on: then a handler that is cancelled has not failed."""
        return self._cancels() > self.cancels

    def _on_signal(self, name: str) -> None:
        """The first stops gracefully, a second one stops now."""
        words = "stopping now" if self.stopping else f"finishing within {self.worker.grace:g} s"
        log.warning("%s: %s", name, words)
        self.stop(now=self.stopping)

    async def _finish(self) -> None:
        """Give back what has not started, let the rest finish within the grace, then cancel and release it."""
        self.finishing = True
        self._give_back("its worker was shut down")
        if self.unsure and (self.claiming is None or self.claiming.done()):
            await self._give_back_last()
        for attempt in await self.shutdown.finish(self._left(0)):
            self._leave_behind(attempt, released("its worker was shut down"), "the task is given back")
        await self.settler.drain(self._left(LAST_WORDS))

    def _leave_behind(self, attempt: Attempt, rule: Rule, what: str) -> None:
        """Like a thread, a coroutine that goes on when it is cancelled cannot be stopped: it ends with the process, and nobody waits for that."""
        words = "task %s: its handler goes on although it was cancelled; %s and the handler left behind"
        log.warning(words, attempt.task.id, what, extra=about(attempt.task))
        self.running.discard(attempt)
        if attempt.running is not None:
            _leave_alone(attempt.running)
        self.settler.put(attempt, rule)

    def _time_out(self, attempt: Attempt) -> None:
        attempt.interrupt(Stop.Timeout)
        self.loop.call_later(LAST_WORDS, self._overstayed, attempt)

    def _overstayed(self, attempt: Attempt) -> None:
        """A handler has gone on after its timeout for longer than tidying up may take."""
        if attempt in self.running and attempt.stopped is Stop.Timeout and not attempt.over:
            self._leave_behind(attempt, attempt.timed_out(), "the attempt has failed")
            self._start()

    # -- claiming

    async def _claim_until_stopped(self) -> None:
        backoff = Backoff("claim tasks", self.outage)
        while not self.stopping:
            count = self._room()
            if count <= 0:
                if self.max_tasks is not None and self.claimed >= self.max_tasks and not self.held:
                    return
                await self._wait_for_change()
                continue
            mark = self.store.mark()
            # What ends while a claim is on its way may let another task go that the claim has not seen.
            idle = not self.held
            try:
                if self.unsure:
                    await self._give_back_unknown()
                    continue
                claimed = await self._seen_through(self._claim(count))
            except StoreUnavailable as error:
                await self._sleep(backoff.wait(error))
                continue
            backoff.reset()
            if 0 < len(claimed.tasks) < count:
                # No more wait: those that were taken begin before the store is asked again.
                await asyncio.sleep(0)
            if not claimed.tasks and not claimed.overdue:
                if self.until_idle and not self.held:
                    if idle:
                        return
                    continue
                await self._nap(mark, claimed.next_due)

    async def _claim(self, count: int) -> Claimed:
        """Claim up to so many, and begin with them."""
        self.unsure, sent = True, surroundings.monotonic()
        claimed = await self.store.claim(_counted(self.want, count))
        lost: list[Task] = []
        if claimed.tasks:
            took = surroundings.monotonic() - sent
            self.prefetch.claimed(took)
            if took > self.worker.lease.total_seconds() / 3:
                sent, lost = await self._renew_late(claimed, sent, took)
        self._take(claimed, sent)
        self.unsure = claimed.unsure
        for task in lost:
            self.held[task.id].interrupt(Stop.Lost)
        if self.finishing:
            self._give_back("its worker was shut down")
        return claimed

    async def _seen_through(self, claim: Coroutine[Any, Any, Claimed]) -> Claimed:
        """Whoever stops while a claim is on its way still hears what it took, and gives that back: nobody else knows of it.

        It is waited for no longer than for a store that is away, and goes on by itself after that.
        """
        self.claiming = claiming = asyncio.create_task(claim, name="tenure-claim")
        # A loop that ends cancels all its tasks at once, as it were this one's business, too; it still waits for us.
        asyncio._unregister_task(claiming)  # noqa: SLF001
        self.hearing = hearing = asyncio.shield(claiming)
        try:
            return await hearing
        except asyncio.CancelledError:
            claiming.add_done_callback(_tell_late_failure)
            if self.stopping and hearing.cancelled() and not self._is_cancelled():
                return Claimed([], [], None)
            self.stop(now=True)
            await asyncio.wait([claiming], timeout=LAST_WORDS)
            raise
        finally:
            self.hearing = None

    async def _see_off_claim(self) -> None:
        """One that took too long may have been answered meanwhile: what it took is given back."""
        if self.claiming is not None:
            await asyncio.wait([self.claiming], timeout=A_MOMENT)
            if not self.claiming.done():
                # Whoever ends the loop from here on cancels it like any other. One that is ending already need not tell of it.
                asyncio._register_task(self.claiming)  # noqa: SLF001
                self.claiming._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
            elif self.unsure or self.claiming.cancelled():
                # What was cut off may have taken effect only after it was looked for.
                await self._give_back_last()
        await self.settler.drain(LAST_WORDS)

    def _room(self) -> int:
        """Free slots, plus what will be started within the next moment."""
        more = self.prefetch.room(len(self.buffer))
        # Where threads that were left behind have all the slots, nothing starts, however fast tasks have ended before.
        if (
            more is None
            or self.settler.unsettled > UNSETTLED_LIMIT
            or self.executors.abandoned >= self.worker.concurrency
        ):
            return 0
        room = self._free_slots() + more
        return room if self.max_tasks is None else min(room, self.max_tasks - self.claimed)

    def _free_slots(self) -> int:
        return self.worker.concurrency - len(self.running) - self.executors.abandoned

    async def _renew_late(self, claimed: Claimed, sent: float, took: float) -> tuple[float, list[Task]]:
        """A claim that took a third of its lease is renewed before anything begins: given back, it would be as late the next time.

        Returns from when the leases count, and the tasks that others have by now.
        """
        lease = self.worker.lease
        words = "a claim took %.1f s, and the lease is %g s: use a longer lease, or see why the store is slow"
        log.warning(words, took, lease.total_seconds())
        again = surroundings.monotonic()
        try:
            holds = await self.store.renew([Renewal(task.id, task.fence, lease) for task in claimed.tasks])
        except StoreUnavailable:
            return sent, []
        return again, [task for task, hold in zip(claimed.tasks, holds, strict=True) if hold is Hold.Lost]

    def _take(self, claimed: Claimed, sent: float) -> None:
        held_until, now = sent + self.worker.lease.total_seconds(), surroundings.monotonic()
        for task in claimed.tasks:
            handler = self.handlers[task.type]
            attempt = Attempt(task, handler, self._policy(handler), held_until, now)
            if (older := self.held.get(task.id)) is not None:
                # Its lease had lapsed, and nobody else would tell it: the heartbeat looks after the newest claim.
                older.interrupt(Stop.Lost)
            self.held[task.id] = attempt
            self.buffer.append(attempt)
        self.claimed += len(claimed.tasks)
        tell_lapses(claimed.overdue)
        if self.events.subscribers:
            if self.events.subscribers is not self.welcomed:
                self._welcome()
            self.events.happened(claimed.overdue)
            self.events.claimed(claimed.tasks)
        self._start()

    def _start(self) -> None:
        free = self._free_slots()
        while self.buffer and free > 0 and not self.stopping:
            attempt = self.buffer.popleft()
            if attempt.stopped is not None:
                self._end_unstarted(attempt)
                continue
            free -= 1
            self.running.add(attempt)
            # Whoever ended starts the next: what its handler left in context variables is none of that one's business.
            attempt.running = self.loop.create_task(
                self._attempt(attempt), name=attempt.task.type, context=self.attempts_context.copy()
            )

    async def _attempt(self, attempt: Attempt) -> None:
        # An answer, a loop or a process that stood still for longer than the lease: another worker may have the task by now.
        began = surroundings.monotonic()
        late = began >= attempt.held_until
        if late or attempt.stopped is not None:
            self.running.discard(attempt)
            self._end_unstarted(attempt, "its lease was over before it began" if late else "given back unstarted")
            self._start()
            return
        context = Context(
            attempt.task, self.worker.queue, attempt.task.cancel_requested, _holder=attempt, _loop=self.loop
        )
        attempt.begun, attempt.context = True, context
        timeout = attempt.timeout
        timer = None if timeout is None else self.loop.call_later(timeout, self._time_out, attempt)
        observed = self.events.subscribers
        ends: Sequence[OnEnd] = ()
        if observed:
            under_way.set(context)
            if self.events.attempt_watchers:
                ends = self.events.attempt_begins(context)
        try:
            rule = await attempt.run(context, self.executors, self.middleware, self._is_cancelled)
            attempt.over = True
            ending: Rule | Task | None = rule
            if context.open_transaction is not None:
                ending = await attempt.end_within(context.open_transaction, rule)
        finally:
            if timer is not None:
                timer.cancel()
            if observed:
                attempt.seconds = surroundings.monotonic() - began
                for end in ends:
                    self.events.tell(end, attempt.raised)
                if attempt.error is None:
                    context.kept = None
            self.running.discard(attempt)
            # Nothing refers to itself from here on, so the memory is free as soon as the attempt is settled.
            attempt.running = None
            context.over()
            if attempt.error is None:
                attempt.context = None
            self.changed.set()
        if attempt.rule is not None:
            # It was left behind, and given back.
            return
        if ending is None:
            self.context.copy().run(self._given_up, attempt)
        elif isinstance(ending, Task):
            self.context.copy().run(self._settled, [(attempt, ending)])
        else:
            self.settler.put(attempt, ending)
        if self.buffer:
            self._start()

    def _given_up(self, attempt: Attempt) -> None:
        self.unanswered.given_up(attempt.task)
        self._forget(attempt)
        self._lost(attempt)
        why = "the lease could not be kept"
        fields = {**about(attempt.task), "what": "lost", "why": why}
        log.warning("task %s: gave up its handler, because %s", attempt.task.id, why, extra=fields)

    async def _nap(self, mark: object, next_due: datetime | None) -> None:
        """Sleep until something is written, the next task is due, or the poll interval is over."""
        seconds = self.worker.poll * random.uniform(0.8, 1)  # noqa: S311 - spreading workers
        try:
            if next_due is not None:
                until_due = (next_due - await self.store.now()).total_seconds()
                seconds = min(seconds, max(until_due, 0))
            if self.stopping:
                return
            await self._sleep(self.store.wait(mark, seconds))
        except StoreUnavailable:
            # Waking up is no more than an optimisation: the next claim tells whether the store is away.
            await self._sleep(asyncio.sleep(seconds))

    async def _sleep(self, nap: Coroutine[Any, Any, None]) -> None:
        """Sleep in a way that `stop` can end."""
        self.nap = sleeping = asyncio.ensure_future(nap)
        await asyncio.wait([sleeping])
        self.nap = None
        if not sleeping.cancelled():
            sleeping.result()

    async def _wait_for_change(self) -> None:
        self.changed.clear()
        try:
            async with asyncio.timeout(self.worker.poll):
                await self.changed.wait()
        except TimeoutError:
            # While all slots are taken nothing else would tell that the queue was closed.
            self.store.check()

    # -- giving back

    def _give_back(self, why: str, *, older_than: float = 0.0) -> None:
        """Release claimed tasks that have not started, so that others need not wait for the lease."""
        limit = surroundings.monotonic() - older_than
        while self.buffer and self.buffer[0].claimed_at <= limit:
            attempt = self.buffer.popleft()
            self._end_unstarted(attempt, why)

    def _end_unstarted(self, attempt: Attempt, why: str = "given back unstarted") -> None:
        self.claimed -= 1
        if attempt.stopped is Stop.Lost:
            self._forget(attempt)
            return
        self.settler.put(attempt, released(why))

    async def _give_back_unknown(self) -> None:
        """A claim whose answer was lost may have taken effect: give back what is held in our name without our knowing."""
        for task in await self.unanswered.find(self.held, self.handlers, self.started_at):
            attempt = Attempt(task, self.handlers[task.type], None, 0.0, surroundings.monotonic())
            self.held[task.id] = attempt
            self.claimed += 1
            self._end_unstarted(attempt, "the answer to its claim was lost")
        self.unsure = False

    async def _give_back_last(self) -> None:
        """The same for a worker that claims no more, and that waits for the store no longer than for one that is away."""
        self.unsure = False
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._give_back_unknown()

    # -- what others want to know

    def _welcome(self) -> None:
        """Let all subscribers, as some are new, prepare what attempts begin with."""
        self.welcomed, self.attempts_context = self.events.subscribers, self.context.copy()
        self.attempts_context.run(self.events.worker_begins, self.worker.queues, list(self.handlers))

    def _lost(self, attempt: Attempt) -> None:
        if self.events.listeners and attempt.begun:
            self.events.emit([Lost(attempt.task)])

    # -- what others report

    def _on_lost(self, attempt: Attempt) -> None:
        self.loop.call_soon_threadsafe(attempt.interrupt, Stop.Lost)

    def _on_cancel(self, attempt: Attempt) -> None:
        """Tell the handler at once, and stop it after the grace if it does not listen."""
        context = attempt.context
        if context is None:
            self.loop.call_soon_threadsafe(attempt.interrupt, Stop.Cancel)
        elif not context.cancel_requested:
            context.cancel_requested = True
            self.loop.call_soon_threadsafe(
                lambda: self.loop.call_later(self.worker.cancel_grace, attempt.interrupt, Stop.Cancel)
            )

    def _settled(self, settled: Sequence[tuple[Attempt, Task | None]]) -> None:
        ended, hooked = 0, self.worker.has_hooks("success")
        for attempt, task in settled:
            self._forget(attempt)
            if task is None:
                self._lost(attempt)
                continue
            if attempt.begun:
                ended += 1
            if task.status is Completed:
                if hooked:
                    self._call_hooks("success", task)
            elif attempt.error is not None:
                tell_failure(Failed(task, attempt.reason, seconds=attempt.seconds))
                self._call_hooks("error", task, attempt.error)
        self.ended += ended
        self.prefetch.ended(ended)
        if self.events.listeners:
            self.events.emit([attempt.event(task) for attempt, task in settled if task is not None])

    def _call_hooks(self, name: str, *arguments: Any) -> None:
        """Beside the settling, so that a slow hook holds up nobody's end."""
        if self.worker.has_hooks(name):
            call = asyncio.create_task(self.worker.call_hooks(name, *arguments), name=f"tenure-on-{name}")
            self.hooks.add(call)
            call.add_done_callback(self._hook_is_over)

    def _hook_is_over(self, call: asyncio.Task[None]) -> None:
        if not call.cancelled():
            # One that ends the process has told so already.
            call.exception()
        self.hooks.discard(call)
        self.changed.set()

    def _forget(self, attempt: Attempt) -> None:
        attempt.settled = True
        if self.held.get(attempt.task.id) is attempt:
            del self.held[attempt.task.id]
        self.changed.set()

    # -- helpers

    async def _look_now_and_then(self) -> None:
        # Before that, the figures would show one worker too few.
        await asyncio.wrap_future(self.heartbeat.announced)
        await self.events.look_now_and_then(self.worker.queue)

    async def _sweep_now_and_then(self) -> None:
        clock = asyncio.get_running_loop().time
        prune_at = 0.0
        while True:
            await asyncio.sleep(self.worker.sweep_interval * random.uniform(0.5, 1))  # noqa: S311
            self._give_back("waited too long for a free slot", older_than=BUFFER_PATIENCE)
            try:
                await self.sweeper.sweep()
                if clock() >= prune_at and not await self.sweeper.prune():
                    prune_at = clock() + self.store.prune_interval
            except (StoreError, DamagedRecord) as error:
                log.debug("sweep failed, the next one may not: %s", error)

    def _policy(self, handler: Handler) -> RetryPolicy | None:
        return self.worker.retry if handler.retry is INHERIT else handler.retry

    def _describe(self) -> dict[str, Any]:
        return {
            "id": self.worker.worker_id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": list(self.worker.queues),
            "types": list(self.handlers),
            "concurrency": self.worker.concurrency,
            "running": len(self.running),
            "lease": self.worker.lease.total_seconds(),
            "started_at": self.started_at.isoformat() if self.started_at else "",
        }


def _leave_alone(task: asyncio.Task[Any]) -> None:
    """As asyncio documents it for tasks of other kinds: whoever ends the loop need not wait for it, nor tell of it once more."""
    asyncio._unregister_task(task)  # noqa: SLF001
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001


def _tell_late_failure(claiming: asyncio.Task[Claimed]) -> None:
    if not claiming.cancelled() and (error := claiming.exception()) is not None:
        log.warning("a claim failed while its worker was stopping: %s", error)


def _counted(want: Want, count: int) -> Want:
    return Want(want.worker_id, want.queues, want.types, count, want.lease)
