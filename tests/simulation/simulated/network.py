"""The way from a process to the store: slow, lossy, sometimes closed. What passes it is what clients can know."""

import asyncio
from collections import Counter

from tenure.errors import StoreUnavailable
from tenure.stores.base import Hold, Store
from tenure.stores.memory import MemoryStore
from tenure.testing.journal import Held, Wrote

PATIENCE = 3.0
"""Seconds after which a client gives up on an answer."""

ENDINGS = ("completed", "failed", "released", "rescheduled")
"""What only the owner of a claim writes; a sweeper may stop for it what was to be cancelled."""


class Network:
    """Between all processes and one store."""

    def __init__(self, world, journal):
        self.world, self.journal = world, journal
        self.store = MemoryStore(world.clock)
        self.dice = world.dice
        self.slow = self.lost_before = self.lost_after = self.duplicated = 0.0
        self.cut_off = set()
        self.faults = Counter()
        self.calls = Counter()
        self.on_the_way = Counter()
        self._waiting = {}
        self._count = 0

    def heal(self):
        self.slow = self.lost_before = self.lost_after = self.duplicated = 0.0
        self.cut_off.clear()

    def is_cut(self, process):
        return process.name in self.cut_off or "store" in self.cut_off

    def send(self, process, loop, answer, method, arguments, words):
        """A request sets out; whatever becomes of it, the client hears something in the end."""
        self.calls[method] += 1
        dice = self.dice
        there, back = self._delay(), self._delay()
        if self.is_cut(process) or self._unlucky(self.lost_before, "lost before effect"):
            self._refuse(loop, answer, min(PATIENCE, dice.choice((0.01, PATIENCE))), f"{method} was not sent")
            self.world.tell(process.name, f"{method}: lost before it took effect")
            return
        if there + back > PATIENCE:
            self._refuse(loop, answer, PATIENCE, f"no answer to {method}")
        lost = self._unlucky(self.lost_after, "lost after effect")
        self.on_the_way[method] += 1
        self.world.later(there, self._arrive, process, loop, answer, method, arguments, words, back, lost)
        if self._unlucky(self.duplicated, "duplicated"):
            self.on_the_way[method] += 1
            self.world.later(there + dice.uniform(0, 2 * PATIENCE), self._again, process, method, arguments, words)

    def _arrive(self, process, loop, answer, method, arguments, words, back, lost):
        self.on_the_way[method] -= 1
        value, error = self._perform(method, arguments, words)
        renewed_at = self.world.clock()
        if lost:
            self._refuse(loop, answer, min(PATIENCE, self.dice.choice((0.01, PATIENCE))), f"no answer to {method}")
            self.world.tell(process.name, f"{method}: took effect, but its answer is lost")
            return
        self.world.later(back, self._return, process, loop, answer, method, arguments, value, error, renewed_at)

    def _return(self, process, loop, answer, method, arguments, value, error, at):
        if self.is_cut(process):
            self.faults["cut on the way back"] += 1
            self._refuse(loop, answer, 0.0, f"no answer to {method}")
            return
        loop.call_soon_threadsafe(self._tell, process, answer, method, arguments, value, error, at)

    def _tell(self, process, answer, method, arguments, value, error, at):
        """The answer reaches the client: from here on it knows."""
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
            return
        if process.worker is not None:
            self._note(process.worker.worker_id, method, arguments, value, at)
        answer.set_result(value)

    def _note(self, worker, method, arguments, value, at):
        journal = self.journal
        if method == "claim":
            for task in value.tasks:
                journal.holds.append(Held(journal.next(), task.id, task.fence, task.lease_expires_at, worker))
        elif method == "renew":
            for renewal, hold in zip(arguments[0], value, strict=True):
                if hold is not Hold.Lost:
                    until = at + renewal.lease
                    journal.holds.append(Held(journal.next(), renewal.task_id, renewal.fence, until, worker))
        elif method == "swap":
            for change, done in zip(arguments[0], value, strict=True):
                event = change.after.history[-1]
                if done and event.what in ENDINGS:
                    journal.writes.append(Wrote(journal.next(), change.after.id, event.number, event.what, worker))

    def _again(self, process, method, arguments, words):
        self.on_the_way[method] -= 1
        self.world.tell(process.name, f"{method}: takes effect a second time")
        self._perform(method, arguments, words)

    def _perform(self, method, arguments, words):
        mark = self.store.mark()
        try:
            value, error = finished(getattr(self.store, method)(*arguments, **words)), None
        except Exception as raised:
            value, error = None, raised
        if self._waiting and self.store.mark() != mark:
            self._wake_up()
        return value, error

    def _refuse(self, loop, answer, seconds, why):
        if loop.process.alive:
            loop.call_at(loop.time() + seconds, _fail, answer, why)

    def _delay(self):
        dice = self.dice
        if self.slow and dice.random() < self.slow:
            self.faults["delayed"] += 1
            return dice.uniform(0.05, 1.5 * PATIENCE)
        return dice.uniform(0.001, 0.01)

    def _unlucky(self, share, what):
        if share and self.dice.random() < share:
            self.faults[what] += 1
            return True
        return False

    # -- waking up

    def wait(self, loop, event):
        self._count += 1
        self._waiting[self._count] = loop, event
        return self._count

    def stop_waiting(self, number):
        self._waiting.pop(number, None)

    def _wake_up(self):
        for loop, event in self._waiting.values():
            if not self.is_cut(loop.process) and not self._unlucky(self.lost_after, "wake-up lost"):
                self.world.later(self._delay(), loop.call_soon_threadsafe, event.set)
        self._waiting.clear()


class RemoteStore(Store):
    """The store as one process sees it."""

    def __init__(self, network, process):
        self.network, self.process = network, process

    def _call(self, method, *arguments, **words):
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self.network.send(self.process, loop, answer, method, arguments, words)
        return answer

    async def now(self):
        return await self._call("now")

    async def insert(self, submissions, *, all_or_nothing=False):
        return await self._call("insert", submissions, all_or_nothing=all_or_nothing)

    async def claim(self, want):
        return await self._call("claim", want)

    async def swap(self, changes):
        return await self._call("swap", changes)

    async def renew(self, renewals):
        return await self._call("renew", renewals)

    async def get(self, ids):
        return await self._call("get", ids)

    async def find(self, query):
        return await self._call("find", query)

    async def overdue(self, now, limit, only=None):
        return await self._call("overdue", now, limit, only)

    async def count_overdue(self, now, limit, only, since=None):
        return await self._call("count_overdue", now, limit, only, since)

    async def count(self):
        return await self._call("count")

    async def prune(self, ended_before, now, limit):
        return await self._call("prune", ended_before, now, limit)

    async def forget(self, tasks, now):
        return await self._call("forget", tasks, now)

    async def dump(self, cursor=None, limit=500):
        return await self._call("dump", cursor, limit)

    async def restore(self, piece, now):
        return await self._call("restore", piece, now)

    async def reserved(self, wanted):
        return await self._call("reserved", wanted)

    async def put_note(self, note, *, if_version=None):
        return await self._call("put_note", note, if_version=if_version)

    async def notes(self, kind):
        return await self._call("notes", kind)

    def mark(self):
        return self.network.store.mark()

    async def wait(self, mark, timeout):
        """Notices of writes travel as everything does, and are lost as everything is."""
        if self.network.is_cut(self.process):
            raise StoreUnavailable("cut off")
        if self.network.store.mark() != mark:
            return
        written = asyncio.Event()
        number = self.network.wait(asyncio.get_running_loop(), written)
        try:
            async with asyncio.timeout(timeout):
                await written.wait()
        except TimeoutError:
            pass
        finally:
            self.network.stop_waiting(number)

    async def close(self):
        pass


def finished(coroutine):
    """The value of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def _fail(answer, why):
    if not answer.done():
        answer.set_exception(StoreUnavailable(why))
