"""Dramatiq on Redis."""

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.worker import Worker

noted = {}


class Peer:
    settings = "8 worker threads (its default)"

    def __init__(self, url):
        self._broker = RedisBroker(url=url)
        self._actor = dramatiq.actor(send_reminder, broker=self._broker)

    def open(self):
        self._broker.client.ping()

    def prepare(self):
        """Redis needs nothing."""

    def submit(self, payload):
        self._actor.send(payload)

    def left(self):
        """Messages stay in the hash until they are acknowledged."""
        return self._broker.client.hlen("dramatiq:default.msgs")

    def work(self, note, concurrency):
        del concurrency
        noted["by"] = note
        Worker(self._broker).start()
        while True:
            time.sleep(3600)


def send_reminder(payload):
    noted["by"](payload)
