"""What a busy thread does to a transaction of a thousand tasks: a step for each, and statements of many rows.

    python bench/convoy.py

See docs/decisions/002-a-batch-is-a-statement.md.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tenure.stores.sqlite.bulk import run_many
from tenure.stores.sqlite.connection import migrate, open_connection
from tenure.stores.sqlite.records import statement

ROWS = [
    (f"{number:036}", "default", "greet", 0, 0, 1, 1, None, None, bytes(340), 1, "pending", 0, 0)
    for number in range(1000)
]
REPEATS = 9

Write = Callable[[sqlite3.Connection], object]
WAYS: dict[str, Write] = {
    "execute, row by row": lambda db: [db.execute(statement("insert"), row) for row in ROWS],
    "executemany": lambda db: db.executemany(statement("insert"), ROWS),
    "many rows a statement": lambda db: run_many(db, statement("insert"), ROWS),
}


def main() -> None:
    print("milliseconds for a transaction of 1000 tasks: median, from … to")
    for name, write in WAYS.items():
        for beside, around in {"alone": contextlib.nullcontext, "beside a busy thread": busy_thread}.items():
            took = [measure(write, around) * 1000 for _ in range(REPEATS)]
            print(f"{name}, {beside}: {statistics.median(took):.1f}, {min(took):.1f} … {max(took):.1f}")


def measure(write: Write, around: Callable[[], contextlib.AbstractContextManager[None]]) -> float:
    """Seconds for which the transaction holds the file, the commit aside."""
    with tempfile.TemporaryDirectory() as folder, around():
        path = Path(folder) / "convoy.db"
        with contextlib.closing(open_connection(path)) as db:
            migrate(db, path)
            # Once before, so that every statement is prepared: a store runs the same few for years.
            db.execute("BEGIN IMMEDIATE")
            write(db)
            db.execute("ROLLBACK")
            db.execute("BEGIN IMMEDIATE")
            begin = time.monotonic()
            write(db)
            took = time.monotonic() - begin
            db.execute("COMMIT")
            return took


@contextlib.contextmanager
def busy_thread() -> Iterator[None]:
    """A thread that computes and never waits, as an event loop with much to do."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
