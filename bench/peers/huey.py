"""Huey, on an SQLite file or on Redis."""

from huey import RedisHuey, SqliteHuey

WORKERS = 4
POLL = 0.01
noted = {}


def send_reminder(payload):
    noted["by"](payload)


class Peer:
    settings = "4 worker threads; fsync=True (synchronous=FULL), WAL, polling every 10 ms"

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
        noted["by"] = note
        self._huey.create_consumer(workers=WORKERS, initial_delay=POLL, max_delay=POLL, periodic=False).run()
