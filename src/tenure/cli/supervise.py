"""Several worker processes under one roof: dead ones are replaced, changed files start them anew."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.cli.errors import USAGE
from tenure.cli.observing import SHARED, Shown, family
from tenure.cli.worker import SUPERVISOR

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("tenure.supervisor")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
SETTLED_AFTER = 5.0
"""A process that has lived this long counts as healthy, and its next death is met without a pause."""
LOOK_EVERY = 0.5
LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages"})


class Supervisor:
    """Starts `count` processes with the same words and keeps that many alive."""

    def __init__(
        self,
        words: list[str],
        count: int,
        *,
        reload: bool,
        burst: bool,
        console: Console | None = None,
        shown: Shown | None = None,
    ) -> None:
        self._shown = shown or Shown()
        self._environment: dict[str, str] = {}
        self._command = [sys.executable, "-m", "tenure", *words]
        self._count, self._reload, self._burst, self._console = count, reload, burst, console
        self._processes: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._worst = 0

    async def run(self) -> int:
        """Return when all have ended, with the worst exit code among those that count."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        log.info("supervisor %d runs %d worker processes", os.getpid(), self._count)
        watcher = asyncio.create_task(self._watch_files()) if self._reload else None
        try:
            with family(self._shown, self._pids, self._stopping.is_set) as environment:
                self._environment = environment
                await asyncio.gather(*(self._keep_one() for _ in range(self._count)))
        finally:
            if watcher is not None:
                watcher.cancel()
            for process in self._processes:
                process.kill()
        return self._worst

    def _pids(self) -> list[int]:
        return [process.pid for process in list(self._processes)]

    async def _keep_one(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            started = time.monotonic()
            process = await self._start()
            code = await self._outlive(process)
            self._processes.discard(process)
            await asyncio.to_thread(self._forget, process.pid)
            if self._stopping.is_set() or (self._burst and code == 0):
                return
            if code == USAGE:
                # The words are wrong, and would be wrong again.
                self._worst = USAGE
                self._on_signal(signal.SIGTERM)
                return
            if self._reload and code == 0:
                pause = 0.0
                continue
            pause = (
                0.0 if time.monotonic() - started > SETTLED_AFTER else min(max(pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            )
            log.warning(
                "worker process %d %s; starting another%s",
                process.pid,
                _ended(code),
                f" in {pause:g} s" if pause else "",
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def _start(self) -> asyncio.subprocess.Process:
        """A session of its own keeps the terminal's Ctrl-C away: only the supervisor hears it and passes it on once."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, SUPERVISOR: str(os.getpid()), **self._environment},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=None if self._console is None else asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.add(process)
        log.info("worker process %d started", process.pid)
        return process

    async def _outlive(self, process: asyncio.subprocess.Process) -> int:
        """Pass on what the process says, where a live line shares the terminal with it."""
        if process.stderr is not None and self._console is not None:
            async for line in process.stderr:
                self._console.print(line.decode(errors="replace").rstrip("\n"), markup=False)
        return await process.wait()

    def _forget(self, pid: int) -> None:
        folder = self._environment.get(SHARED)
        if folder is None:
            return
        from tenure.observe.watchdog import note_of

        note_of(Path(folder), pid).unlink(missing_ok=True)
        if self._shown.metrics:
            from tenure.observe.together import bury

            bury(folder, pid)

    def _on_signal(self, number: int) -> None:
        if not self._stopping.is_set():
            log.warning("%s: stopping %d worker processes", signal.Signals(number).name, len(self._processes))
        self._stopping.set()
        self._tell_all()

    def _tell_all(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def _watch_files(self) -> None:
        before = _snapshot(Path.cwd())
        while True:
            await asyncio.sleep(LOOK_EVERY)
            now = await asyncio.to_thread(_snapshot, Path.cwd())
            if now != before:
                changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
                log.info("%s changed; restarting", changed[0])
                before = now
                self._tell_all()


def _snapshot(folder: Path) -> dict[str, int]:
    """When each Python file below a folder was changed last."""
    found = {}
    for path in _python_files(folder):
        with contextlib.suppress(OSError):
            found[str(path.relative_to(folder))] = path.stat().st_mtime_ns
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in LEFT_OUT]
        yield from (Path(root, name) for name in files if name.endswith(".py"))


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        # Most of the real-time signals have no names.
        return f"was ended by signal {-code}"
