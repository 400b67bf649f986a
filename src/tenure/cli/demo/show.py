"""The demo: a producer, two workers, one of them killed, and an account of every task."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tenure.cli.demo.account import ENDINGS, Account, take_account
from tenure.cli.demo.plan import FOLDER, LEASE, plan
from tenure.cli.errors import CommandFailed
from tenure.cli.output import STYLES, Output
from tenure.lifecycle import LAPSED
from tenure.queue import Queue, connect
from tenure.task import Task, TaskStatus

if TYPE_CHECKING:
    from rich.console import Group

PATIENCE = 50.0
TICK = 0.1
PLAIN_EVERY = 2.0


async def show(out: Output, count: int) -> Account:
    """Run the whole demo in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tenure-demo-") as name:
        stage = Stage(out, Path(name), count)
        try:
            return await stage.play()
        finally:
            stage.clear()


class Stage:
    """The processes of the demo, and what is seen of them."""

    def __init__(self, out: Output, folder: Path, count: int) -> None:
        self.out, self.folder, self.count = out, folder, count
        self.url = f"sqlite:///{folder / 'demo.db'}"
        self.expected = len(plan(count))
        self.workers: list[subprocess.Popen[bytes]] = []
        self.producer: subprocess.Popen[bytes] | None = None
        self.killed: subprocess.Popen[bytes] | None = None
        self.held: list[str] = []
        self.counts: dict[str, int] = dict.fromkeys(TaskStatus, 0)
        self.view: View = LiveView(self) if out.at_terminal else PlainView(self)

    async def play(self) -> Account:
        """Start, kill, wait, account."""
        async with connect(self.url) as queue:
            with self.view:
                self.view.tell(f"A fresh queue, in one SQLite file: {self.folder / 'demo.db'}")
                self.workers = [self._start_worker() for _ in range(2)]
                self.producer = self._start("tenure.cli.demo.producer", self.url, str(self.count))
                self.view.tell(
                    f"Two worker processes ({self.workers[0].pid} and {self.workers[1].pid}) and a producer "
                    f"({self.producer.pid}). It submits {self.expected:,} tasks of seven types: some fail and are "
                    "retried, some can only fail, some expire, some are cancelled, and each charge is submitted "
                    "twice with one idempotency key."
                )
                await self._until(queue, lambda: self._ended() >= self.expected * 0.3)
                await self._kill_one(queue)
                self.workers.append(self._start_worker())
                self.view.tell(f"A new worker process ({self.workers[-1].pid}) joins, as a supervisor would start it.")
                await self._recovery(queue)
                await self._until(queue, lambda: self.producer is not None and self.producer.poll() is not None)
                self.view.tell("The producer is done; every task it was promised stands in its ledger.")
                await self._until(queue, self._is_over)
                self.view.tell("Nothing is left to do. Now the account: ledger, histories and logbooks side by side.")
            for worker in self.workers:
                worker.terminate()
            return await take_account(queue, self.folder, self.held)

    async def _kill_one(self, queue: Queue) -> None:
        """SIGKILL in the middle of the work: the worker is frozen, seen to hold something, and killed."""
        victim = self.workers[1]
        while not self.held:
            victim.send_signal(signal.SIGCONT)
            await self._until(queue, lambda: True)
            await asyncio.sleep(TICK)
            victim.send_signal(signal.SIGSTOP)
            for worker in await queue.workers():
                if worker.pid == victim.pid:
                    page = await queue.list("running", worker=worker.id, limit=1000)
                    self.held = [task.id for task in page.tasks]
        self.killed = victim
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.view.tell(
            f"Worker {victim.pid} was just killed with SIGKILL while it ran {len(self.held)} tasks. Nobody tells the "
            f"queue: their leases lapse within {LEASE:g} s, and the other worker takes them over."
        )

    async def _recovery(self, queue: Queue) -> None:
        """Wait until the tasks of the killed worker have lapsed."""
        waiting, since = self.held, time.monotonic()
        while waiting:
            await self._until(queue, lambda: True)
            tasks = await queue.store.get(waiting)
            waiting = [task.id for task in tasks if task is not None and not _has_lapsed(task)]
            await asyncio.sleep(TICK)
        self.view.tell(
            f"{time.monotonic() - since:.1f} s after the kill, all {len(self.held)} tasks of the dead worker have "
            "lapsed: back in the queue with one attempt spent, for whoever is free."
        )

    async def _until(self, queue: Queue, done: Any) -> None:
        deadline = self.view.started + PATIENCE
        while True:
            self.counts = {status.value: count for status, count in (await queue.counts()).items()}
            self.view.update()
            if time.monotonic() > deadline:
                msg = f"The demo did not end within {PATIENCE:g} s: {self.counts}. {self._last_words()}"
                raise CommandFailed(msg)
            if any(process.poll() for process in [*self.workers, self.producer] if process not in (self.killed, None)):
                msg = f"A process of the demo ended before its time. {self._last_words()}"
                raise CommandFailed(msg)
            if done():
                return
            await asyncio.sleep(TICK)

    def _ended(self) -> int:
        return sum(self.counts[status] for status in ENDINGS)

    def _is_over(self) -> bool:
        return self.counts["pending"] + self.counts["running"] == 0 and self._ended() > 0

    def _start_worker(self) -> subprocess.Popen[bytes]:
        words = f"worker tenure.cli.demo.tasks:app --url {self.url} --processes 1 --concurrency 10 --queues default"
        return self._start("tenure", *words.split(), "--lease", str(LEASE), "--grace", "5s")

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, FOLDER: str(self.folder), "TENURE_PROFILE": ""}
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                [sys.executable, "-m", module, *arguments],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _last_words(self) -> str:
        lines = (self.folder / "log.txt").read_text(errors="replace").splitlines()
        return f"The last line of the log: {lines[-1] if lines else '(empty)'}"

    def clear(self) -> None:
        """No process outlives the demo."""
        for process in [*self.workers, *([self.producer] if self.producer else [])]:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _has_lapsed(task: Task) -> bool:
    return any(event.what == LAPSED for event in task.history)


class View:
    """What is seen while the demo runs."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.started = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque(maxlen=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to put away."""

    def tell(self, text: str) -> None:
        """A sentence of the story."""

    def update(self) -> None:
        """The counts are new."""
        ended = sum(self.stage.counts[status] for status in ENDINGS)
        self._seen.append((time.monotonic(), ended))

    @property
    def rate(self) -> float:
        """Tasks that ended per second, of late."""
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0

    @property
    def clock(self) -> str:
        """Seconds since the curtain rose."""
        return f"{time.monotonic() - self.started:4.1f}s"


class PlainView(View):
    """Lines for a pipe."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._next = self.started + PLAIN_EVERY

    def tell(self, text: str) -> None:
        """A sentence of the story."""
        self.stage.out.say(f"{self.clock}  {text}")

    def update(self) -> None:
        """A line now and then."""
        super().update()
        if time.monotonic() >= self._next:
            self._next += PLAIN_EVERY
            counts = ", ".join(f"{count:,} {status}" for status, count in self.stage.counts.items() if count)
            self.stage.out.say(f"{self.clock}  {counts} ({self.rate:.0f}/s)")


class LiveView(View):
    """A picture that moves, under the story as it grows."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        from rich.live import Live

        self._live = Live(console=stage.out.console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        """A sentence of the story, above the picture."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 2))
        line.add_row(Text(self.clock, style="dim"), Text(text))
        self.stage.out.console.print(Padding(line, (0, 0, 1, 0)))

    def update(self) -> None:
        """Draw the picture anew."""
        super().update()
        self._live.update(self._picture())

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        stage = self.stage
        bars = Table.grid(padding=(0, 2))
        bars.add_column(min_width=11)
        bars.add_column(justify="right", min_width=6)
        bars.add_column()
        for status, count in stage.counts.items():
            if status != TaskStatus.Archived:
                style = STYLES[status]
                bar = ProgressBar(stage.expected, count, width=50, complete_style=style, finished_style=style)
                bars.add_row(Text(status, style=style), f"{count:,}", bar)
        ended = sum(stage.counts[status] for status in ENDINGS)
        words = Text(f"\n{ended / stage.expected:4.0%} of {stage.expected:,} tasks ended, {self.rate:,.0f}/s    ")
        for worker in stage.workers:
            dead = worker is stage.killed
            words.append(f" worker {worker.pid} ", style="white on red" if dead else "black on green")
            words.append("killed " if dead else " ")
        return Group(bars, words)
