"""The stores of a chaos run: what each is made of, and what can happen to it beside the death of its clients."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from chaos_proxy import Way

sys.path.append(str(Path(__file__).parent.parent))

import debian
from tenure.stores import EXAMPLES
from tenure.testing.postgres import PostgresServer

OUTAGE = (0.05, 1.0)
"""Seconds that a fault of the store lasts."""


class Place:
    """A store that can be harmed. `faults` are its coroutines, each done by one word of the dice."""

    name = ""
    own_clock = True
    """Whether its time is another than that of the machine of a client."""
    doubt = 0.0
    """Seconds by which two clients may read its time differently."""
    delay = 0.0
    """Seconds that everything is on its way to a server and back, each, also when nothing happens to the network."""
    pace = 1.0
    """How many tasks it is given, as a part of the usual number."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.url = ""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_): ...

    def faults(self):
        return {fault.__name__.replace("_", " "): fault for fault in self.weather_now()}

    def weather_now(self):
        return []


class File(Place):
    """An SQLite file to which nothing happens."""

    own_clock = False

    def __init__(self, folder):
        super().__init__(folder)
        self.url = f"sqlite:///{self.folder}/jobs.db"


class Sqlite(Place):
    """A file on a small disk, if this user may have one."""

    name = "sqlite"
    own_clock = False

    async def __aenter__(self):
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(self.disk)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self.url = f"sqlite:///{self.disk}/jobs.db"
        return self

    async def __aexit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)

    def weather_now(self):
        return [self.disk_slow, self.disk_full] if self.mounted else [self.disk_slow]

    async def disk_slow(self, dice):
        """A writer that takes its time with the only lock there is, as on a disk that does."""
        with (
            contextlib.closing(
                sqlite3.connect(self.disk / "jobs.db", timeout=60, isolation_level=None, check_same_thread=False)
            ) as writer,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            await asyncio.to_thread(writer.execute, "BEGIN IMMEDIATE")
            await asyncio.sleep(dice.uniform(*OUTAGE))
            writer.execute("ROLLBACK")

    async def disk_full(self, dice):
        """No byte is left, for a while."""
        ballast = self.disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        await asyncio.sleep(dice.uniform(*OUTAGE))
        ballast.unlink()


class Served(Place):
    """A store behind servers, each with a way to it that can be harmed."""

    async def __aenter__(self):
        self.up = await asyncio.to_thread(self.start)
        self.ways = [await Way(port).__aenter__() for port in self.ports()]
        for way in self.ways:
            way.delay = self.delay
        self.url = self.address([way.port for way in self.ways])
        return self

    async def __aexit__(self, *_):
        for way in self.ways:
            await way.__aexit__()
        await asyncio.to_thread(self.remove)

    def weather_now(self):
        return [self.server_killed, self.answer_lost, self.request_lost, self.network_slow]

    async def server_killed(self, dice):
        """Gone without a word, and back after a while with what it had promised to keep."""
        server = dice.choice(self.servers())
        await asyncio.to_thread(self.kill, server)
        await asyncio.sleep(dice.uniform(*OUTAGE))
        await asyncio.to_thread(self.restart, server)

    async def request_lost(self, dice):
        await self._cut(dice, "before")

    async def answer_lost(self, dice):
        await self._cut(dice, "after")

    async def _cut(self, dice, when):
        way = dice.choice(self.ways)
        before = way.cuts
        way.cut(dice.randrange(1, 8), when)
        async with asyncio.timeout(2):
            while way.cuts == before:
                await asyncio.sleep(0.01)

    async def network_slow(self, dice):
        way = dice.choice(self.ways)
        way.delay = self.delay + dice.uniform(0.02, 0.2)
        await asyncio.sleep(dice.uniform(*OUTAGE))
        way.delay = self.delay


class Postgres(Served):
    """One server with the settings that an installation has: what it has committed is on the disk."""

    name = "postgresql"

    def start(self):
        self.server = PostgresServer("max_connections=100").start()

    def servers(self):
        return [self.server]

    def ports(self):
        return [self.server.port]

    def address(self, ports):
        return f"postgresql://postgres@127.0.0.1:{ports[0]}/postgres"

    def kill(self, server):
        server.stop(signal.SIGKILL)

    def restart(self, server):
        server.start()

    def remove(self):
        self.server.remove()


class DynamoDB(Served):
    """A server on a file."""

    name = "dynamodb"
    doubt = 2.0
    """A `Date` has whole seconds, and nobody knows how long an answer was on its way."""
    pace = 0.4

    def start(self):
        from tenure.testing.aws import Dynoxide
        from tenure.testing.s3 import use_test_credentials

        use_test_credentials()
        self.server = Dynoxide(durable=True).start()

    def servers(self):
        return [self.server]

    def ports(self):
        return [self.server.port]

    def address(self, ports):
        return f"dynamodb://chaos?endpoint=http://127.0.0.1:{ports[0]}&region=us-east-1&create=true"

    def kill(self, server):
        server.stop()

    def restart(self, server):
        server.start()

    def remove(self):
        self.server.remove()


class S3(DynamoDB):
    """A real object store."""

    name = "s3"
    pace = 0.2

    def start(self):
        from tenure.testing.s3 import SeaweedFS, use_test_credentials

        use_test_credentials()
        self.server = SeaweedFS().start()

    def address(self, ports):
        return f"s3://chaos/jobs?endpoint=http://127.0.0.1:{ports[0]}&region=us-east-1&create=true"


class Etcd(Served):
    """Three servers. Debian's version: the one of the Python package may lose data when it is killed."""

    name = "etcd"
    doubt = 1.0
    pace = 0.4

    def start(self):
        from tenure.testing.etcd import EtcdCluster

        self.cluster = EtcdCluster(3, programs_in=Path(debian.program("etcd")).parent).start()

    def servers(self):
        return self.cluster.members

    def ports(self):
        return [member.port for member in self.cluster.members]

    def address(self, ports):
        return f"etcd://{','.join(f'127.0.0.1:{port}' for port in ports)}/chaos"

    def kill(self, server):
        server.stop()

    def restart(self, server):
        self.cluster.start_member(server)
        self.cluster.wait_until_healthy()

    def remove(self):
        self.cluster.remove()


PLACES = {place.name: place for place in (Sqlite, Postgres, DynamoDB, S3, Etcd) if place.name in EXAMPLES}
