"""A thread that tells others how this process is: systemd, or the supervisor that started it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol, Self

import msgspec

from tenure.observe.health import STUCK_AFTER, Signs

EVERY = 1.0
READY_EVERY = 5.0


class Report(Protocol):
    """Somebody who wants to know."""

    def __call__(self, not_live: str | None, not_ready: str | None) -> None:
        """How it is now."""


class Watchdog:
    """Asks for signs of life every second, and passes them on."""

    def __init__(self, signs: Signs, *reports: Report) -> None:
        self._signs, self._reports = signs, reports
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tenure-watchdog", daemon=True)

    def __enter__(self) -> Self:
        if self._reports:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._reports:
            self._thread.join()

    def _tell_stopping(self) -> None:
        for report in self._reports:
            if isinstance(report, Systemd):
                report.stopping()

    def _watch(self) -> None:
        not_ready: str | None = "it is starting"
        asked = 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            if self._signs.is_stopping():
                self._tell_stopping()
            if not_ready or now - asked > READY_EVERY:
                not_ready, asked = self._signs.not_ready(), now
            for report in self._reports:
                report(self._signs.not_live(), not_ready)
            self._stopping.wait(EVERY)


class Systemd:
    """Speaks to the service manager of Linux: ready, alive, stopping (see `man sd_notify`).

    With `WatchdogSec=` in the unit, a worker that is stuck is killed and started anew.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._said = ""
        self._stopping = False

    @classmethod
    def here(cls) -> Systemd | None:
        """The one that started this process and wants to hear of it."""
        address = os.environ.get("NOTIFY_SOCKET")
        return cls(address) if address else None

    def __call__(self, not_live: str | None, not_ready: str | None) -> None:
        """Say that it is ready, once, and that it lives, while it does."""
        if not_live is None:
            self._send("WATCHDOG=1")
        words = f"READY=1\nSTATUS={not_live or 'working'}" if not_ready is None else f"STATUS={not_live or not_ready}"
        if words != self._said:
            self._send(words)
            self._said = words

    def stopping(self) -> None:
        """Say that it ends on purpose, once."""
        if not self._stopping:
            self._stopping = True
            self._send("STOPPING=1")

    def _send(self, words: str) -> None:
        # A manager that does not listen is no reason to stop working.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(self._address)
            manager.send(words.encode())


def note_of(folder: Path, pid: int) -> Path:
    """Where a worker process says how it is."""
    return folder / f"health-{pid}.json"


class _Told(msgspec.Struct):
    live: str | None
    ready: str | None


class Note:
    """A file in which a worker process says how it is."""

    def __init__(self, folder: Path) -> None:
        self._file = note_of(folder, os.getpid())

    def __call__(self, not_live: str | None, not_ready: str | None) -> None:
        """Write it down."""
        with contextlib.suppress(OSError):
            self._file.write_bytes(msgspec.json.encode(_Told(not_live, not_ready)))


class Family:
    """How the worker processes of a supervisor are, by the files they write."""

    def __init__(
        self,
        folder: Path,
        pids: Callable[[], Collection[int]],
        stuck_after: float = STUCK_AFTER,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder, self._pids, self._stuck_after = folder, pids, stuck_after
        self.is_stopping = stopping

    def not_live(self) -> str | None:
        """A process that says so, or that has stopped saying anything."""
        for pid in self._pids():
            told, age = self._told(pid)
            if told is not None and (trouble := told.live or self._silence(age)):
                return f"process {pid}: {trouble}"
        return None

    def not_ready(self) -> str | None:
        """A process that is not ready, or has not begun."""
        pids = self._pids()
        for pid in pids:
            told, age = self._told(pid)
            trouble = "it is starting" if told is None else told.ready or self._silence(age)
            if trouble:
                return f"process {pid}: {trouble}"
        return None if pids else "no worker process runs"

    def _silence(self, age: float) -> str | None:
        return f"no sign of life for {age:.0f} s" if age > self._stuck_after else None

    def _told(self, pid: int) -> tuple[_Told | None, float]:
        file = note_of(self._folder, pid)
        try:
            return msgspec.json.decode(file.read_bytes(), type=_Told), time.time() - file.stat().st_mtime
        except (OSError, msgspec.MsgspecError):
            return None, 0.0
