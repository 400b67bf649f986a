"""Worker processes on one SQLite file, killed and frozen at random; afterwards everything is accounted for.

python tests/chaos/chaos.py --seconds 60 --tasks 10000 --workers 4 --seed 7
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
from pathlib import Path

from chaos_account import account
from chaos_work import LEASE
from rich.console import Console
from rich.table import Table

from tenure import TaskStatus, connect

HERE = Path(__file__).parent
PRODUCERS = 2
DRAIN_PATIENCE = 120.0


class Chaos:
    """One run: its processes, its faults and its files."""

    end = signal.SIGKILL

    def __init__(self, folder, *, seconds, tasks, workers, seed):
        self.folder = Path(folder)
        self.url = f"sqlite:///{self.folder}/jobs.db"
        self.seconds, self.tasks, self.seed = seconds, tasks, seed
        self.dice = random.Random(f"faults {seed}")
        self.workers = [None] * workers
        self.producers = []
        self.faults = Counter()
        self.started = 0
        self.broken = []
        self.figures = {}

    async def run(self):
        async with connect(self.url) as queue:
            try:
                self.producers = [await self._produce(part) for part in range(PRODUCERS)]
                await self._make_trouble()
                await self._drain(queue)
                await self._stop()
            finally:
                for process in [*self.workers, *self.producers]:
                    if process is not None and process.returncode is None:
                        process.kill()
                        await process.wait()
            self.figures, broken = await account(
                queue, self.folder.glob("acknowledged-*"), self.folder.glob("executions-*")
            )
            self.broken += broken
        self.broken += self._locked()
        return self

    async def _produce(self, part):
        return await self._start(
            "chaos_producer.py",
            self.folder / f"acknowledged-{part}",
            self.tasks,
            self.seed,
            self.seconds * 0.7,
            part,
            PRODUCERS,
            log=f"producer-{part}",
        )

    async def _start(self, program, *arguments, log):
        with (self.folder / f"{log}.log").open("ab") as errors:
            return await asyncio.create_subprocess_exec(
                sys.executable, str(HERE / program), self.url, *map(str, arguments), stderr=errors
            )

    async def _keep_workers(self):
        """Replace workers that are gone, as a supervisor would."""
        for place, worker in enumerate(self.workers):
            if worker is None or worker.returncode is not None:
                if worker is not None and worker.returncode > 0:
                    self.faults["poisoned"] += 1
                self.started += 1
                self.workers[place] = await self._start(
                    "chaos_worker.py", self.folder / f"executions-{self.started}", log=f"worker-{self.started}"
                )

    async def _make_trouble(self):
        end = time.monotonic() + self.seconds
        frozen = []
        while time.monotonic() < end:
            await self._keep_workers()
            await asyncio.sleep(self.dice.uniform(0.1, 1.0))
            victim = self.dice.choice(self.workers)
            if victim.returncode is not None:
                continue
            if self.dice.random() < 0.75:
                self.faults["killed"] += 1
                send(victim, self.end)
                await victim.wait()
            else:
                frozen.append(asyncio.create_task(self._freeze(victim, LEASE * self.dice.uniform(1.2, 2))))
        await asyncio.gather(*frozen)

    async def _freeze(self, victim, seconds):
        """A worker that stands still for longer than its leases, and then goes on as if nothing had happened."""
        self.faults["frozen past the lease"] += 1
        send(victim, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        send(victim, signal.SIGCONT)

    async def _drain(self, queue):
        """Once the faults have stopped, everything ends."""
        for producer in self.producers:
            if await producer.wait() != 0:
                self.broken.append(f"a producer ended with {producer.returncode}; see its log")
        end = time.monotonic() + DRAIN_PATIENCE
        while True:
            await self._keep_workers()
            counts = await queue.counts()
            if not counts[TaskStatus.Pending] and not counts[TaskStatus.Running]:
                return
            if time.monotonic() > end:
                self.broken.append(f"not everything ended within {DRAIN_PATIENCE:g} s after the last fault")
                return
            await asyncio.sleep(0.1)

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

    def table(self):
        table = Table(title=f"chaos, seed {self.seed}")
        table.add_column("what")
        table.add_column("count", justify="right")
        for name, count in {"workers started": self.started, **self.faults, **self.figures}.items():
            table.add_row(name, f"{count:,}")
        table.add_row("broken promises", f"{len(self.broken):,}", style="bold red" if self.broken else "bold green")
        return table


def send(process, number):
    """A signal, straight from the system: asyncio's own way reaps a child that has just died under its watcher."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--tasks", type=int, default=10_000)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    options.add_argument("--folder", help="keep the files of the run here")
    given = options.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-chaos-"))
        Path(folder).mkdir(exist_ok=True)
        chaos = Chaos(folder, seconds=given.seconds, tasks=given.tasks, workers=given.workers, seed=given.seed)
        asyncio.run(chaos.run())
    console = Console()
    console.print(chaos.table())
    for sentence in chaos.broken[:50]:
        console.print(sentence, style="red", highlight=False)
    return 1 if chaos.broken else 0


if __name__ == "__main__":
    sys.exit(main())
