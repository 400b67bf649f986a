"""Stores whose records can be harmed behind their back."""

import contextlib
import json
import random
import sqlite3

from budget import EXAMPLES
from hypothesis import HealthCheck, Phase, given, settings

from tenure import DamagedRecord
from tenure.task import decode


class Place:
    """One store. `share` is its part of the examples."""

    share = 0.12
    always_the_same = False
    believes = False
    """Whether a harmed record that still can be read is taken at its word: there is nothing beside it that would tell."""
    believes_running = False
    """The same, of a task that runs."""

    async def harm(self, store, task_id, harm):
        """Harm the record of a task; answers with whether it is to be believed now."""
        raise NotImplementedError

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
            where = "WHERE seq = (SELECT seq FROM tenure_tasks WHERE id = ?)"
            (record,) = db.execute(f"SELECT record FROM tenure_records {where}", (task_id,)).fetchone()
            db.execute(f"UPDATE tenure_records SET record = ? {where}", (harm(record), task_id))

    async def harm_note(self, store, note, harm):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            where = "WHERE kind = ? AND key = ?"
            (value,) = db.execute(f"SELECT value FROM tenure_notes {where}", (note.kind, note.key)).fetchone()
            db.execute(f"UPDATE tenure_notes SET value = ? {where}", (harm(value), note.kind, note.key))

    async def harm_key(self, store, reservation, harm):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            where = "WHERE identity = ?"
            name = reservation.identity
            (record,) = db.execute(f"SELECT record FROM tenure_reservations {where}", (name,)).fetchone()
            db.execute(f"UPDATE tenure_reservations SET record = ? {where}", (harm(record), name))


class Postgres(Place):
    def __init__(self, request, folder):
        self.url = request.getfixturevalue("postgres_url")

    async def harm(self, store, task_id, harm):
        fetch = store._connections.fetch
        ((record,),) = await fetch("SELECT record FROM tenure.tasks WHERE id = $1", task_id)
        await fetch("UPDATE tenure.tasks SET record = $2 WHERE id = $1", task_id, harm(record))

    async def harm_note(self, store, note, harm):
        fetch, where = store._connections.fetch, "WHERE kind = $1 AND key = $2"
        ((value,),) = await fetch(f"SELECT value FROM tenure.notes {where}", note.kind, note.key)
        await fetch(f"UPDATE tenure.notes SET value = $3 {where}", note.kind, note.key, harm(value))

    async def harm_key(self, store, reservation, harm):
        fetch, name = store._connections.fetch, reservation.identity
        ((record,),) = await fetch("SELECT record FROM tenure.reservations WHERE identity = $1", name)
        await fetch("UPDATE tenure.reservations SET record = $2 WHERE identity = $1", name, harm(record))


class Etcd(Place):
    believes_running = True

    def __init__(self, request, folder):
        self.url = request.getfixturevalue("etcd_url")

    async def harm(self, store, task_id, harm):
        from tenure.stores.etcd.layout import unpack

        def harm_record(value):
            place, record = unpack(value)
            return place + b" " + harm(record)

        await self._harm(store, store._db.layout.task(task_id), harm_record)

    async def harm_note(self, store, note, harm):
        from tenure.stores.etcd.layout import name

        await self._harm(store, store._db.layout.key(b"note", name(note.kind), name(note.key)), harm)

    async def harm_key(self, store, reservation, harm):
        await self._harm(store, store._db.layout.reservation(reservation.identity), harm)

    async def _harm(self, store, key, harm):
        from tenure.stores.etcd.client import TXN
        from tenure.stores.etcd.requests import Txn, get, put

        (answer,) = await store._db.client.read([get(key)])
        await store._client.ask(TXN, Txn(success=[put(key, harm(answer.response_range.kvs[0].value))]))


class DynamoDB(Place):
    def __init__(self, request, folder):
        self.url = request.getfixturevalue("dynamodb_url")

    async def harm(self, store, task_id, harm):
        await self._harm(store, (await store._parts()).keys.task(task_id), "record", harm)

    async def harm_note(self, store, note, harm):
        await self._harm(store, (await store._parts()).keys.note(note.kind, note.key), "note", harm)

    async def harm_key(self, store, reservation, harm):
        await self._harm(store, (await store._parts()).keys.reservation(reservation), "record", harm)

    async def _harm(self, store, key, field, harm):
        table = (await store._parts()).table
        item = (await table.get([key]))[key]
        changed = {field: harm(item[field].encode()).decode(errors="replace")}
        await table.write(table.update(key, changed))


class S3(Place):
    """Records of one key stand in one object: here it stays an object, and one record in it is harmed."""

    believes = True

    def __init__(self, request, folder):
        self.url = request.getfixturevalue("s3_url")

    async def harm(self, store, task_id, harm):
        name, _ = (await store._places.find([task_id]))[task_id]
        found = await store.bucket.read(name)
        body = json.loads(found.body)
        (entry,) = [entry for entry in body["tasks"] if entry["task"]["id"] == task_id]
        harmed = harm(json.dumps(entry["task"]).encode())
        entry["task"] = _readable(harmed)
        assert await store.bucket.replace(name, json.dumps(body).encode(), "nonce", found.etag)
        return is_readable(harmed)


def _readable(record):
    """What is no JSON any more, as a text."""
    try:
        return json.loads(record)
    except ValueError:
        return record.decode(errors="replace")


def is_readable(record):
    """Whether a harmed record is still a record."""
    try:
        return bool(decode(record, "t1"))
    except DamagedRecord:
        return False


PLACES = {"sqlite": Sqlite, "postgres": Postgres, "etcd": Etcd, "dynamodb": DynamoDB, "s3": S3}
