"""Write the fixtures of the installed version: `python tests/upgrades/make.py FOLDER`. Run it once for each release.

A folder `schema-N` gets the SQL schemas, a folder `format-N` the stores without one. What is written is never changed
afterwards: later versions must read it as it is.
"""

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

from kept import KEPT, PREFIX
from story import Clock, as_text, seen, tell, tell_more

from tenure import transfer
from tenure.queue import Queue
from tenure.stores.postgres import PostgresStore
from tenure.stores.sqlite import SqliteStore
from tenure.testing.aws import Dynoxide
from tenure.testing.etcd import FAST as FAST_ETCD
from tenure.testing.etcd import EtcdCluster
from tenure.testing.postgres import FAST, PostgresServer, programs
from tenure.testing.s3 import SeaweedFS, prepare, use_test_credentials


async def make_schema(folder):
    clock = Clock()
    file = folder / "tasks.sqlite"
    store = SqliteStore(file, clock)
    await tell(store, clock)
    (folder / "seen.json").write_text(as_text(await seen(store)))
    with (folder / "export.jsonl").open("wb") as export:
        await transfer.export(Queue(store), export)
    await store.close()
    with PostgresServer(*FAST) as server:
        clock = Clock()
        store = PostgresStore(server.url, clock)
        await store.open()
        await tell(store, clock)
        await store.close()
        (folder / "postgres.sql").write_bytes(dump(server.url))


def dump(url):
    """The schema and its rows as statements."""
    done = subprocess.run(
        [programs() / "pg_dump", url, "--schema=tenure", "--inserts", "--no-owner"], check=True, capture_output=True
    )
    return b"\n".join(line for line in done.stdout.split(b"\n") if not line.startswith((b"\\", b"--", b"SET "))) + b"\n"


class Servers:
    """Servers of one's own, by the names that the tests have for their stores."""

    def __init__(self, until):
        use_test_credentials()
        self._until = until

    def getfixturevalue(self, name):
        if name == "dynamodb_url":
            endpoint = self._until.enter_context(Dynoxide()).endpoint
            return f"dynamodb://tasks?endpoint={endpoint}&create=true&prefix={PREFIX}"
        if name == "etcd_url":
            return self._until.enter_context(EtcdCluster(1, *FAST_ETCD)).url(PREFIX)
        if name == "s3_url":
            self.seaweedfs = self._until.enter_context(SeaweedFS())
            return prepare(self.seaweedfs, "tests", PREFIX)
        return self.seaweedfs


async def make_format(folder):
    with contextlib.ExitStack() as until:
        for name, kind in KEPT.items():
            kept, clock = kind(Servers(until)), Clock()
            store = kept.Store(kept.url, clock)
            await store.open()
            await tell(store, clock)
            await kept.tidy(store)
            await tell_more(store)
            (folder / "seen.json").write_text(as_text(await seen(store)))
            await store.close()
            # What a store writes only as it is left is kept, too.
            (folder / f"{name}.json").write_text(await kept.taken_out(kept.Store(kept.url, clock)))


if __name__ == "__main__":
    made = Path(sys.argv[1])
    made.mkdir(parents=True, exist_ok=True)
    asyncio.run(make_schema(made) if made.name.startswith("schema-") else make_format(made))
