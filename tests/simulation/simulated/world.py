"""Virtual time and the processes that live in it. One seed decides everything that is left to chance."""

import contextlib
import heapq
import logging
import random
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta

from simulated.loops import NEVER, SimulatedLoop
from tenure import ids
from tenure.worker import surroundings

BEGINNING = datetime(2026, 1, 28, 12, tzinfo=UTC)


class Process:
    """Some loops with a clock of their own, which die and stand still together."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.offset = float(world.dice.randrange(1000))
        self.alive, self.paused = True, False
        self.loops = []
        self.worker = None

    @property
    def running(self):
        return self.alive and not self.paused

    def start(self, coroutine):
        """The coroutine on a loop, that is a thread, of its own."""
        loop = SimulatedLoop(self)
        self.loops.append(loop)
        self.world.loops.append(loop)
        return loop.create_task(coroutine)

    def crash(self):
        """As by SIGKILL: nothing of it ever runs again."""
        if self.alive:
            self.alive = False
            self.world.loops = [loop for loop in self.world.loops if loop.process is not self]
            self.world.graves += self.loops
            self.world.tell(self.name, "CRASHES")

    def pause(self):
        """As by SIGSTOP: nothing runs, time goes on."""
        self.paused = True
        self.world.tell(self.name, "STANDS STILL")

    def resume(self):
        self.paused = False
        if self.alive:
            self.world.tell(self.name, "goes on")


class World:
    def __init__(self, seed, told=None):
        self.seed, self.told = seed, told
        self.dice = random.Random(f"world {seed}")
        self.now = 0.0
        self.clock_offset = timedelta(0)
        self.set_back = self.set_forward = timedelta(0)
        self.loops, self.graves = [], []
        self.current = None
        self.surprises = []
        self.blocks = []
        """When a thread began to do nothing else, and for how long."""
        self._plans = []
        self._count = 0

    def clock(self):
        """The time of the store."""
        return BEGINNING + timedelta(microseconds=round(self.now * 1_000_000)) + self.clock_offset

    def jump(self, seconds):
        """Somebody sets the clock of the store."""
        jump = timedelta(seconds=seconds)
        self.clock_offset += jump
        if seconds < 0:
            self.set_back -= jump
        else:
            self.set_forward += jump
        self.tell("store", f"CLOCK JUMPS by {seconds:+.1f} s")

    def later(self, seconds, call, *arguments):
        """Let something happen that no process does: the network, the supervisor, fate."""
        self._count += 1
        heapq.heappush(self._plans, (self.now + seconds, self._count, call, arguments))

    def tell(self, who, what):
        if self.told is not None:
            self.told.append((self.now, who, what))

    def block(self, seconds):
        """The thread that calls this does nothing else for so long."""
        self.current.blocked_until = self.now + seconds
        self.blocks.append((self.now, seconds))

    def run(self, is_over, limit):
        """Let time pass until it is over; False if it is not over by the limit."""
        while not is_over():
            soonest = self._plans[0][0] if self._plans else NEVER
            for loop in self.loops:
                if not loop.process.paused and (at := loop.wakes_at()) < soonest:
                    soonest = at
            if soonest > limit:
                return False
            self.now = max(self.now, soonest)
            self._live_a_moment()
        return True

    def _live_a_moment(self):
        plans = self._plans
        while plans and plans[0][0] <= self.now:
            *_, call, arguments = heapq.heappop(plans)
            call(*arguments)
        # What happens at the same moment happens in any order.
        loops = [loop for loop in self.loops if loop.has_something_to_do()]
        if len(loops) > 1:
            self.dice.shuffle(loops)
        for loop in loops:
            loop.turn()

    @contextlib.contextmanager
    def real(self):
        """While this holds, workers take time, chance and threads from this world."""
        kept = surroundings.monotonic, surroundings.on_its_own_thread, surroundings.threads
        kept_ids, kept_chance, level = (ids._random, ids._series), random.getstate(), logging.root.manager.disable
        surroundings.monotonic = lambda: self.now + self.current.process.offset if self.current else self.now
        surroundings.on_its_own_thread = self._on_its_own_thread
        surroundings.threads = lambda size, name: SimulatedThreads(self)
        ids._random, ids._series = random.Random(f"ids {self.seed}"), ids._Series()
        random.seed(f"workers {self.seed}")
        logging.disable(logging.CRITICAL)
        try:
            yield self
        finally:
            for loop in (*self.graves, *self.loops):
                loop.vanish()
            surroundings.monotonic, surroundings.on_its_own_thread, surroundings.threads = kept
            (ids._random, ids._series), _ = kept_ids, random.setstate(kept_chance)
            logging.disable(level)

    def _on_its_own_thread(self, main, name):
        ended = Future()
        task = self.current.process.start(main())
        task.add_done_callback(lambda task: ended.set_result(None))
        return ended


class SimulatedThreads:
    """Threads for plain handlers. The call is made at once; its answer comes after the time it says it took."""

    def __init__(self, world):
        self.world = world

    def submit(self, call):
        answer, process = Future(), self.world.current.process
        process.thread_takes = 0.0
        try:
            value, error = call(), None
        except BaseException as raised:
            value, error = None, raised
        self.world.later(process.thread_takes, self._answer, process, answer, value, error)
        return answer

    def _answer(self, process, answer, value, error):
        if not process.alive or answer.cancelled():
            return
        if process.paused:
            self.world.later(0.1, self._answer, process, answer, value, error)
        elif error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def close(self):
        pass
