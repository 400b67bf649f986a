"""How soon another process has what one has written, with nothing but the driver: an insert, a word, a claim, each durable.

    python bench/bare_pick_up.py URL TABLE COUNT    the other process: it claims when it is told, and says when it had each

On SQLite the word is a line through a pipe, on PostgreSQL a notification.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

import floors
import postgres_floors

EVERY = 0.02
"""Seconds between two inserts: the other process idles in between."""


def on_sqlite(path: Path, count: int) -> list[float]:
    """Seconds from before each insert until it is claimed."""
    sent = []
    with contextlib.closing(floors.open_file(path)) as db, _other_process(str(path), "tasks", count) as other:
        assert other.stdin is not None
        for number in range(count):
            time.sleep(EVERY)
            sent.append(time.monotonic())
            floors.fill(db, 1, 1, number)
            other.stdin.write("\n")
            other.stdin.flush()
        return _waits(sent, other)


async def on_postgres(url: str, floor: postgres_floors.Floor, count: int) -> list[float]:
    """Seconds from before each insert until it is claimed."""
    sent = []
    with _other_process(url, floor.name, count) as other:
        for number in range(count):
            await asyncio.sleep(EVERY)
            values = [f"{number:036}"], [datetime.now(UTC)], [floors.record(number)]
            sent.append(time.monotonic())
            await floor.db.execute(postgres_floors.INSERT_AND_TELL.format(floor.name), *values)
        return await asyncio.to_thread(_waits, sent, other)


@contextlib.contextmanager
def _other_process(*words: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def _waits(sent: list[float], other: subprocess.Popen[str]) -> list[float]:
    assert other.stdout is not None
    had = json.loads(other.stdout.readline())
    assert len(had) == len(sent)
    return [end - begin for begin, end in zip(sent, had, strict=True)]


def _claim_on_sqlite(path: Path, count: int) -> list[float]:
    had: list[float] = []
    with contextlib.closing(floors.open_file(path)) as db:
        print("ready", flush=True)
        while len(had) < count and sys.stdin.readline():
            db.execute("BEGIN IMMEDIATE")
            rows = db.execute(floors.CLAIM, (floors.CLAIM_BATCH,)).fetchall()
            db.execute("COMMIT")
            had += [time.monotonic()] * len(rows)
    return had


async def _claim_on_postgres(url: str, name: str, count: int) -> list[float]:
    had: list[float] = []
    told = asyncio.Event()
    floor, listening = await postgres_floors.Floor.connect(url, name), await asyncpg.connect(url)
    await listening.add_listener(name, lambda *_: told.set())
    claim = postgres_floors.CLAIM.format(name)
    await floor.db.fetch(claim, floors.CLAIM_BATCH)
    print("ready", flush=True)
    while len(had) < count:
        await told.wait()
        told.clear()
        rows = await floor.db.fetch(claim, floors.CLAIM_BATCH)
        had += [time.monotonic()] * len(rows)
    return had


def main() -> None:
    place, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if place.startswith("postgres"):
        had = asyncio.run(_claim_on_postgres(place, name, count))
    else:
        had = _claim_on_sqlite(Path(place), count)
    print(json.dumps(had), flush=True)


if __name__ == "__main__":
    main()
