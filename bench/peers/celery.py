"""Celery on Redis, acknowledging after the work as durability asks for."""

import redis
from celery import Celery

THREADS = 4
noted = {}


class Peer:
    settings = "4 threads, task_acks_late, no results"

    def __init__(self, url):
        self._app = Celery("bench", broker=url)
        self._app.conf.update(task_acks_late=True, task_ignore_result=True, broker_connection_retry_on_startup=True)
        self._app.conf.update(worker_send_task_events=False)
        self._task = self._app.task(name="send_reminder")(send_reminder)
        self._redis = redis.Redis.from_url(url)

    def open(self):
        self._redis.ping()

    def prepare(self):
        """Redis needs nothing."""

    def submit(self, payload):
        self._task.delay(payload)

    def left(self):
        return self._redis.llen("celery") + self._redis.hlen("unacked")

    def work(self, note, concurrency):
        del concurrency
        noted["by"] = note
        without = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._app.worker_main(["worker", "--pool=threads", f"--concurrency={THREADS}", "--loglevel=ERROR", *without])


def send_reminder(payload):
    noted["by"](payload)
