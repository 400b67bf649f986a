"""An event loop that the world turns by hand: no selector, no waiting, only virtual time."""

import asyncio
import contextlib
import heapq

TICK = 1e-9
NEVER = float("inf")


class SimulatedLoop(asyncio.BaseEventLoop):
    """One thread of a simulated process."""

    def __init__(self, process):
        super().__init__()
        self.process = process
        self.world = process.world
        self.blocked_until = 0.0
        self.tasks = []

    def time(self):
        return self.world.now + self.process.offset

    def create_task(self, coroutine, **words):
        task = super().create_task(coroutine, **words)
        self.tasks.append(task)
        return task

    def wakes_at(self):
        """When this loop has something to do next, in the time of the world."""
        if self._ready:
            return self.blocked_until
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        return max(timers[0]._when - self.process.offset, self.blocked_until) if timers else NEVER

    def has_something_to_do(self):
        return bool(self._ready) or (bool(self._scheduled) and self._scheduled[0]._when <= self.time() + TICK)

    def turn(self):
        """Run what there is to run at this moment, unless the process dies or stands still on the way."""
        process, world, ready, timers = self.process, self.world, self._ready, self._scheduled
        now = self.time() + TICK
        while timers and timers[0]._when <= now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        if not ready or not process.running or world.now < self.blocked_until:
            return
        asyncio._set_running_loop(self)
        world.current = self
        try:
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if not process.running or world.now < self.blocked_until:
                        return
        finally:
            asyncio._set_running_loop(None)
            world.current = None

    def vanish(self):
        """End for good. What was on its way is closed without a chance to be heard by anybody."""
        for task in self.tasks:  # grows while it is walked: a closing coroutine may start others
            if not task.done():
                task._log_destroy_pending = False
                _close(task.get_coro())
        self._ready.clear()
        self._scheduled.clear()
        self.tasks.clear()
        self.close()

    def call_exception_handler(self, context):
        if self.process.running:
            self.world.surprises.append(f"{self.process.name}: {context.get('message')}: {context.get('exception')!r}")

    def add_signal_handler(self, *_):
        pass

    def remove_signal_handler(self, *_):
        pass

    def run_in_executor(self, *_):
        raise AssertionError("a real thread in a simulated world")

    def _timer_handle_cancelled(self, handle):
        pass

    def _write_to_self(self):
        pass

    def _process_events(self, events):
        pass


def _close(coroutine):
    while coroutine.cr_frame is not None:
        # It may wait for something while it is closed; then it is closed there as well.
        with contextlib.suppress(BaseException):
            coroutine.close()
