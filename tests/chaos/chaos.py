"""Producers and workers on every store, killed, frozen, cut off and with wrong clocks; then everything is accounted for.

python tests/chaos/chaos.py --seconds 60 --tasks 10000 --workers 4 --seed 7 --stores sqlite,postgresql
"""

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

from chaos_account import account
from chaos_places import PLACES
from chaos_report import show, write
from chaos_stuck import progress, why
from chaos_work import LEASE, NO_STORE, POISONED

sys.path.append(str(Path(__file__).parent.parent))

import debian
from tenure import StoreError, TaskStatus, connect

HERE = Path(__file__).parent
PRODUCERS = 2
STANDSTILL, DRAIN_LIMIT = 60.0, 600.0
"""Seconds after the faults: without any progress, and in all. After either, a run counts as stuck."""
SKEWS = ("+3600", "-3600", "-86400")
"""Seconds by which the clock of a client is wrong."""
STARTING = SimpleNamespace(returncode=0)
"""Stands for a process that is being started."""


class Chaos:
    """One run: its processes, its faults and its files."""

    end = signal.SIGKILL
    """How a worker is killed."""
    weights = (6, 2, 1)
    """How often workers are killed, workers are frozen, producers are killed."""

    def __init__(self, folder, place, *, seconds, tasks, workers, seed):
        self.folder = Path(folder)
        self.place = place
        self.seconds, self.tasks, self.seed = seconds, tasks, seed
        self.dice = random.Random(f"clocks {seed}")
        self.workers = [None] * workers
        self.producers = [None] * PRODUCERS
        self.faults = Counter()
        self.started = 0
        self.logs = {}
        self.broken = []
        self.why = []
        self.load = []
        self.figures = {}

    async def run(self):
        async with self.place:
            await self._with(connect(self.place.url))
        return self

    async def _with(self, connecting):
        async with connecting as queue:
            try:
                for part in range(PRODUCERS):
                    await self._produce(part)
                await self._make_trouble()
                await self._drain(queue)
                await self._stop()
            finally:
                for process in [*self.workers, *self.producers]:
                    if process is not None and process.returncode is None:
                        send(process, signal.SIGKILL)
                        await process.wait()
            self.figures, broken = await account(
                queue,
                self.folder.glob("acknowledged-*"),
                self.folder.glob("executions-*"),
                timedelta(seconds=self.place.doubt),
            )
        self.figures["seconds until all had ended"] = round(self.drained)
        self.broken += [*broken, *self._locked()]

    async def _produce(self, part):
        self.producers[part] = await self._start(
            "chaos_producer.py",
            self.folder / f"acknowledged-{part}",
            int(self.tasks * self.place.pace),
            self.seed,
            self.seconds * 0.7,
            part,
            PRODUCERS,
            log=f"producer-{part}",
        )

    async def _start(self, program, *arguments, log):
        log = self.folder / f"{log}.log"
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(HERE / program),
                self.place.url,
                *map(str, arguments),
                stderr=errors,
                env=self._surroundings(),
            )
        self.logs[log] = process
        return process

    def _surroundings(self):
        """Every other client has a wrong clock, where time is the store's."""
        if not self.place.own_clock or self.dice.random() < 0.5:
            return dict(os.environ)
        self.faults["clock wrong"] += 1
        return {
            **os.environ,
            "LD_PRELOAD": str(debian.FOLDER / "usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"),
            "FAKETIME": self.dice.choice(SKEWS),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    async def _keep_workers(self):
        """Replace workers that are gone, as a supervisor would."""
        for place, worker in enumerate(self.workers):
            if worker is not STARTING and (worker is None or worker.returncode is not None):
                if worker is not None:
                    self._note_end(worker.returncode)
                self.started += 1
                self.workers[place] = STARTING
                self.workers[place] = await self._start(
                    "chaos_worker.py", self.folder / f"executions-{self.started}", log=f"worker-{self.started}"
                )

    def _note_end(self, code):
        if code == POISONED:
            self.faults["worker poisoned"] += 1
        elif code not in (-signal.SIGKILL, NO_STORE) and self.end is signal.SIGKILL:
            self.broken.append(f"a worker crashed with {code}; see its log")

    async def _keep_producers(self):
        for part, producer in enumerate(self.producers):
            if producer.returncode == -signal.SIGKILL:
                self.producers[part] = STARTING
                await self._produce(part)

    async def _make_trouble(self):
        """Faults of processes and of the store at the same time, one of each kind at a time."""
        end = time.monotonic() + self.seconds
        mine = {
            "worker killed": self._kill_worker,
            "worker frozen past its lease": self._freeze,
            "producer killed": self._kill_producer,
        }
        await self._keep_workers()
        self.load.append(os.getloadavg()[0])
        await asyncio.gather(self._repeat(mine, self.weights, end), self._repeat(self.place.faults(), None, end))

    async def _repeat(self, faults, weights, end):
        if not faults:
            return
        dice = random.Random(f"{' '.join(faults)} {self.seed}")
        while time.monotonic() < end:
            await asyncio.sleep(dice.uniform(0.05, 0.5))
            await self._keep_workers()
            await self._keep_producers()
            (name,) = dice.choices(list(faults), weights)
            with contextlib.suppress(TimeoutError):
                if await faults[name](dice) is not False:
                    self.faults[name] += 1

    async def _kill_worker(self, dice):
        return await self._kill(dice.choice(self.workers))

    async def _kill_producer(self, dice):
        return await self._kill(dice.choice(self.producers))

    async def _kill(self, victim):
        if victim.returncode is not None:
            return False
        send(victim, self.end)
        await victim.wait()
        return True

    async def _freeze(self, dice):
        """A worker that stands still for longer than its leases, and then goes on as if nothing had happened."""
        victim = dice.choice(self.workers)
        if victim.returncode is not None:
            return False
        send(victim, signal.SIGSTOP)
        await asyncio.sleep(LEASE * dice.uniform(1.2, 2))
        send(victim, signal.SIGCONT)
        return True

    async def _drain(self, queue):
        """Once the faults have stopped, everything ends. How fast is up to the machine, but it goes on."""
        begin = moved = time.monotonic()
        last = None
        while True:
            await self._keep_workers()
            await self._keep_producers()
            all_submitted = all(producer.returncode is not None for producer in self.producers)
            with contextlib.suppress(StoreError):
                counts = await queue.counts()
                if last != (last := progress(self.folder, counts)):
                    moved = time.monotonic()
                if all_submitted and not counts[TaskStatus.Pending] and not counts[TaskStatus.Running]:
                    break
            if time.monotonic() > min(moved + STANDSTILL, begin + DRAIN_LIMIT):
                waited = f"{time.monotonic() - begin:.0f} s after the faults, {time.monotonic() - moved:.0f} s after the last progress"
                self.broken.append(f"not everything has ended {waited}")
                self.why = await why(queue, self.logs)
                break
            await asyncio.sleep(0.1)
        self.drained = time.monotonic() - begin
        self.load.append(os.getloadavg()[0])
        for producer in self.producers:
            if producer.returncode != 0:
                self.broken.append(f"a producer ended with {producer.returncode}; see its log")

    async def _stop(self):
        for worker in self.workers:
            send(worker, signal.SIGTERM)
        for worker in self.workers:
            async with asyncio.timeout(60):
                code = await worker.wait()
            # A worker may have been asked to stop before it had begun to listen.
            if code not in (0, -signal.SIGTERM):
                self.broken.append(f"a worker that was asked to stop ended with {code}")

    def _locked(self):
        for file in self.folder.glob("*.log"):
            if "database is locked" in file.read_text(errors="replace"):
                yield f"{file.name}: somebody saw 'database is locked'"


def send(process, number):
    """A signal, straight from the system: asyncio's own way reaps a child that has just died under its watcher."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=45)
    options.add_argument("--tasks", type=int, default=10_000)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    options.add_argument("--stores", default=",".join(PLACES))
    options.add_argument("--delay", type=float, default=0.0, help="seconds to a server and back, each, all the time")
    options.add_argument("--folder", help="keep the files of the run here")
    options.add_argument("--write", help="write the figures to this page")
    given = options.parse_args()
    runs = []
    for name in given.stores.split(","):
        with contextlib.ExitStack() as stack:
            folder = given.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-chaos-"))
            folder = Path(folder, name)
            folder.mkdir(parents=True)
            place = PLACES[name](folder)
            place.delay = given.delay
            words = {"seconds": given.seconds, "tasks": given.tasks, "workers": given.workers, "seed": given.seed}
            runs.append(asyncio.run(Chaos(folder, place, **words).run()))
    show(runs)
    if given.write:
        write(runs, Path(given.write))
    return 1 if any(run.broken for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
