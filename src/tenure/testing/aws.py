"""Servers that speak like AWS, for tests and measurements, and a connection that loses things on purpose."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Self

from tenure.errors import StoreUnavailable
from tenure.stores.aws.transport import AnswerLost, NotSent, Reply, Transport
from tenure.testing.ports import free_port

PATIENCE = 60.0


class Fault(Enum):
    """What can go wrong between a store and its server."""

    Throttled = "turned away, because there is too much traffic"
    ServerError = "an error inside the server, and nothing was done"
    ServerErrorAfterEffect = "an error inside the server, after it was done"
    LostBeforeEffect = "the request never arrived"
    NotSent = "no connection"
    LostAfterEffect = "the answer never arrived"
    Truncated = "half of the answer arrived"
    Late = "the request arrives later than others"


class FaultyTransport:
    """Stands before another transport. `plan` is asked before each exchange what shall go wrong with it."""

    def __init__(self, inner: Transport, plan: Callable[[str, bytes], Fault | None]) -> None:
        self.inner, self.plan = inner, plan
        self.happened: list[tuple[str, Fault]] = []

    async def exchange(self, operation: str, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Let happen what the plan says."""
        fault = self.plan(operation, body)
        if fault is None:
            return await self.inner.exchange(operation, method, url, headers, body)
        self.happened.append((operation, fault))
        if fault is Fault.Throttled:
            return Reply(400, {}, b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}')
        if fault is Fault.ServerError:
            return Reply(500, {}, b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}')
        if fault is Fault.NotSent:
            raise NotSent(fault.value)
        if fault is Fault.LostBeforeEffect:
            raise AnswerLost(fault.value)
        if fault is Fault.Late:
            await asyncio.sleep(0.005)
        reply = await self.inner.exchange(operation, method, url, headers, body)
        if fault is Fault.LostAfterEffect:
            raise AnswerLost(fault.value)
        if fault is Fault.ServerErrorAfterEffect:
            return Reply(500, {}, b"{}")
        if fault is Fault.Truncated:
            return Reply(reply.status, reply.headers, reply.body[: len(reply.body) // 2])
        return reply

    async def close(self) -> None:
        """Close the transport behind."""
        await self.inner.close()


class AwsServer:
    """A server process on a free port of this machine. It can be killed and started again on the same port."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-aws-"))
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """What starts the server."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What the server finds in its environment beside the usual."""
        return {}

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and return when it takes connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder,
                env={**os.environ, **self.environment()},
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                msg = f"the server did not start: {(self._folder / 'log').read_text(errors='replace')[-2000:]}"
                raise StoreUnavailable(msg)
            time.sleep(0.01)
        return self

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it; SIGKILL is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def remove(self) -> None:
        """End it and delete everything."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


class Ministack(AwsServer):
    """DynamoDB and S3 in the memory of one process, from the package `ministack`."""

    def command(self) -> list[str]:
        """The program beside this Python."""
        return [str(Path(sys.executable).parent / "ministack")]

    def environment(self) -> dict[str, str]:
        """It would listen to the whole network otherwise."""
        return {"GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1", "LOG_LEVEL": "ERROR"}


class Dynoxide(AwsServer):
    """DynamoDB in memory or, when `durable`, in a file: then what it has acknowledged survives a crash.

    The program is the one in `$TENURE_DYNOXIDE`, else the one that the test set-up puts beside this Python, from npm.
    """

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__()
        self._durable = durable

    def command(self) -> list[str]:
        """The program with its port and its file."""
        beside = Path(sys.executable).parent.parent / "npm/node_modules/@dynoxide/linux-x64/dynoxide"
        program = os.environ.get("TENURE_DYNOXIDE", str(beside))
        file = ["--db-path", str(self._folder / "data.db")] if self._durable else []
        return [program, "--host", "127.0.0.1", "--port", str(self.port), *file]
