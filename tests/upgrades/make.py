"""Write the fixtures of the installed version: `python tests/upgrades/make.py FOLDER`. Run it once for each release.

What is written is never changed afterwards: later versions must read it as it is.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from story import Clock, as_text, seen, tell

from tenure import transfer
from tenure.queue import Queue
from tenure.stores.postgres import PostgresStore
from tenure.stores.sqlite import SqliteStore
from tenure.testing.postgres import FAST, PostgresServer, programs


async def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
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


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
