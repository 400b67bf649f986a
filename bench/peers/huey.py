"""Huey, on an SQLite file or on Redis."""

import sys

from huey import RedisHuey, SqliteHuey

WORKERS = 4
POLL = 0.01


class Peer:
    settings = "4 worker threads, polling every 10 ms; fsync=True (synchronous=FULL), WAL"

    def __init__(self, url):
        if url.startswith("sqlite"):
            self._huey = SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False)
        else:
            self._huey = RedisHuey(url=url, results=False)
            self.settings = "4 worker threads"
        self._task = self._huey.task()(send_reminder)

    def open(self):
        self._huey.pending_count()

    def prepare(self):
        self._huey.flush()

    def submit(self, payload):
        self._task(payload)

    def left(self):
        return self._huey.pending_count()

    def work(self, note, concurrency):
        del concurrency
        sys.modules[__name__].note = note
        self._huey.create_consumer(workers=WORKERS, initial_delay=POLL, max_delay=POLL, periodic=False).run()


def send_reminder(payload):
    note(payload)  # noqa: F821 - put here before the work begins
