"""The processes of a system that is measured: told what to do, looked at from outside, ended by their ids."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from systems import System

TICKS = os.sysconf("SC_CLK_TCK")
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
START = 60.0
"""Seconds that a process may take to get ready."""


class Failed(Exception):
    """A system could not do its work; why is the text."""


class _Process:
    """A process that speaks in lines of JSON, in a group of its own so that its children end with it."""

    def __init__(self, system: System, role: str, *words: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*system.command(), role, *words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self._heard = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, patience: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + patience
        while True:
            line, found, self._heard = self._heard.partition(b"\n")
            if found:
                if line.startswith(b"bench: "):
                    return self._checked(json.loads(line[7:]))
                continue
            self._heard = line
            ready, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                msg = f"no answer in {patience:.0f} s"
                raise Failed(msg)
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise Failed(self._last_words())
            self._heard += data

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise Failed(self._last_words())

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise Failed(str(answer["error"])[:300])
        return answer

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)]
        return (errors or lines or ["ended without a word"])[-1][:300]


class Client(_Process):
    """Submits and counts."""

    def __init__(self, system: System, url: str, log: Path) -> None:
        super().__init__(system, "client", url, log=log)
        self.answer(START)

    def do(self, what: str, patience: float = 60.0, **words: Any) -> dict[str, Any]:
        self.tell(json.dumps({"do": what, **words}))
        return self.answer(patience)


class Worker(_Process):
    """Works. What it ran is read from the file that it maps."""

    def __init__(self, system: System, url: str, log: Path, notes: Path, count: int, concurrency: int, pause: float):
        notes.write_bytes(bytes(count * 9))
        with notes.open("r+b") as file:
            self._notes = mmap.mmap(file.fileno(), 0)
        self._count = count
        super().__init__(system, "worker", url, str(notes), str(concurrency), str(pause), log=log)
        self.answer(START)

    def go(self) -> None:
        self.tell("go")

    def runs(self) -> bytes:
        """How often each task ran here."""
        return self._notes[self._count * 8 :]

    def distinct(self) -> int:
        """How many tasks ran here."""
        return self._count - self.runs().count(0)

    def starts(self) -> list[float]:
        """When the last run of each began, 0 where there was none."""
        return memoryview(self._notes[: self._count * 8]).cast("d").tolist()

    def processor_seconds(self) -> float:
        """What it and its children have used so far."""
        return sum(_ticks(pid) for pid in _group(self.pid)) / TICKS

    def memory(self) -> float:
        """MiB that it and its children hold now."""
        return sum(_kilobytes(pid, "VmRSS:") for pid in _group(self.pid)) / 1024

    def peak_memory(self) -> float:
        """MiB that they held at most, each for itself."""
        return sum(_kilobytes(pid, "VmHWM:") for pid in _group(self.pid)) / 1024


def _group(leader: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == leader:
                found.append(int(stat.parent.name))
    return found


def _ticks(pid: int) -> int:
    """Its own and those of the children that it has seen end."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(word) for word in words[11:15])
    return 0


def _kilobytes(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
    return 0
