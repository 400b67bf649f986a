"""Stores whose records can be harmed behind their back."""

import contextlib
import json
import random
import sqlite3

from budget import EXAMPLES
from hypothesis import HealthCheck, Phase, given, settings


class Place:
    """One store. `share` is its part of the examples."""

    share = 0.12
    always_the_same = False

    def key(self, turn, number):
        """The ordering key of a task, two tasks a key."""
        return f"{turn} {number % 2}"

    def some(self, strategy):
        """Some of what a strategy can make, for tests that are coroutines."""
        found = []

        @settings(
            max_examples=max(int(EXAMPLES * self.share), 5),
            database=None,
            derandomize=self.always_the_same,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(example):
            found.append(example)

        collect()
        random.shuffle(found)
        return found


class Sqlite(Place):
    share = 0.4

    def __init__(self, request, folder):
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"

    async def harm(self, store, task_id, harm):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            (record,) = db.execute("SELECT record FROM tenure_tasks WHERE id = ?", (task_id,)).fetchone()
            db.execute("UPDATE tenure_tasks SET record = ? WHERE id = ?", (harm(record), task_id))


class Postgres(Place):
    def __init__(self, request, folder):
        self.url = request.getfixturevalue("postgres_url")

    async def harm(self, store, task_id, harm):
        fetch = store._connections.fetch
        ((record,),) = await fetch("SELECT record FROM tenure.tasks WHERE id = $1", task_id)
        await fetch("UPDATE tenure.tasks SET record = $2 WHERE id = $1", task_id, harm(record))


class Etcd(Place):
    def __init__(self, request, folder):
        self.url = request.getfixturevalue("etcd_url")

    async def harm(self, store, task_id, harm):
        from tenure.stores.etcd.client import TXN
        from tenure.stores.etcd.layout import unpack
        from tenure.stores.etcd.requests import Txn, get, put

        key = store._db.layout.task(task_id)
        (answer,) = await store._db.client.read([get(key)])
        place, record = unpack(answer.response_range.kvs[0].value)
        await store._client.ask(TXN, Txn(success=[put(key, place + b" " + harm(record))]))


class DynamoDB(Place):
    def __init__(self, request, folder):
        self.url = request.getfixturevalue("dynamodb_url")

    async def harm(self, store, task_id, harm):
        parts = await store._parts()
        key = parts.keys.task(task_id)
        item = (await parts.table.get([key]))[key]
        changed = {"record": harm(item["record"].encode()).decode(errors="replace")}
        await parts.table.write(parts.table.update(key, changed))


class S3(Place):
    """Records of one key stand in one object: here it stays an object, and one record in it is harmed."""

    def __init__(self, request, folder):
        self.url = request.getfixturevalue("s3_url")

    async def harm(self, store, task_id, harm):
        name, _ = (await store._places.find([task_id]))[task_id]
        found = await store.bucket.read(name)
        body = json.loads(found.body)
        for entry in body["tasks"]:
            if entry["task"]["id"] == task_id:
                entry["task"] = _readable(harm(json.dumps(entry["task"]).encode()))
        assert await store.bucket.replace(name, json.dumps(body).encode(), "nonce", found.etag)


def _readable(record):
    """What is no JSON any more, as a text."""
    try:
        return json.loads(record)
    except ValueError:
        return record.decode(errors="replace")


PLACES = {"sqlite": Sqlite, "postgres": Postgres, "etcd": Etcd, "dynamodb": DynamoDB, "s3": S3}
