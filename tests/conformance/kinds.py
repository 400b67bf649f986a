"""The kinds of stores that the conformance suite runs on: how each is opened, and tampered with."""

import contextlib
import sqlite3

import msgspec

from tenure.stores.dynamodb import DynamoStore
from tenure.stores.dynamodb.inserting import reservation_item
from tenure.stores.etcd import EtcdStore
from tenure.stores.etcd.client import TXN
from tenure.stores.etcd.requests import Txn, delete, put
from tenure.stores.memory import MemoryStore
from tenure.stores.postgres import PostgresStore
from tenure.stores.s3 import S3Store
from tenure.stores.sharded import ShardedStore
from tenure.stores.sqlite import SqliteStore


class Memory:
    """All handles of one test are the same object: nothing else shares what is in memory."""

    def __init__(self, request):
        self.only = None

    async def open(self, clock):
        self.only = self.only or MemoryStore(clock)
        return self.only

    async def plant(self, store, reservation):
        store._reservations[reservation.identity] = reservation

    async def lose(self, store, task_id):
        del store._tasks[task_id], store._order[task_id]


class Sqlite:
    """One file a test."""

    def __init__(self, request):
        self.path = request.getfixturevalue("tmp_path") / "tasks.db"

    async def open(self, clock):
        return SqliteStore(self.path, clock)

    async def plant(self, store, reservation):
        self._execute(
            "INSERT OR REPLACE INTO tenure_reservations (identity, record) VALUES (?, ?)",
            (reservation.identity, msgspec.json.encode(reservation)),
        )

    async def lose(self, store, task_id):
        self._execute("DELETE FROM tenure_tasks WHERE id = ?", (task_id,))

    def _execute(self, statement, values):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
            connection.execute(statement, values)


class Postgres:
    """One server for all tests, emptied before each."""

    def __init__(self, request):
        self.url = request.getfixturevalue("postgres_url")

    async def open(self, clock):
        return PostgresStore(self.url, clock)

    async def plant(self, store, reservation):
        await store._connections.fetch(
            "INSERT INTO tenure.reservations (identity, record) VALUES ($1, $2)"
            " ON CONFLICT (identity) DO UPDATE SET record = excluded.record, expires_at = NULL",
            reservation.identity,
            msgspec.json.encode(reservation),
        )

    async def lose(self, store, task_id):
        for table in ("tasks", "ended"):
            await store._connections.fetch(f"DELETE FROM tenure.{table} WHERE id = $1", task_id)


class Etcd:
    """One server for all tests, and a prefix for each."""

    def __init__(self, request):
        self.url = request.getfixturevalue("etcd_url")

    async def open(self, clock):
        return EtcdStore(self.url, clock)

    async def plant(self, store, reservation):
        key, value = store._db.layout.reservation(reservation.identity), msgspec.json.encode(reservation)
        await store._client.ask(TXN, Txn(success=[put(key, value)]))

    async def lose(self, store, task_id):
        await store._client.ask(TXN, Txn(success=[delete(store._db.layout.task(task_id))]))


class DynamoDB:
    """One server and one table for all tests, keys of its own for each."""

    def __init__(self, request):
        self.url = request.getfixturevalue("dynamodb_url")

    async def open(self, clock):
        return DynamoStore(self.url, clock)

    async def plant(self, store, reservation):
        parts = await store._parts()
        key, item = parts.keys.reservation(reservation), reservation_item(parts, reservation)
        await parts.table.write(parts.table.update(key, item))

    async def lose(self, store, task_id):
        parts = await store._parts()
        await parts.table.write(parts.table.delete(parts.keys.task(task_id)))


class S3:
    """One server and one bucket for all tests, a prefix for each."""

    def __init__(self, request):
        self.url = request.getfixturevalue("s3_url")

    async def open(self, clock):
        return S3Store(self.url, clock)

    async def plant(self, store, reservation):
        await store.open()
        records = store._reservations
        held = await records.read(reservation)
        await (records.create(reservation, None) if held is None else records.replace(held, reservation, None))

    async def lose(self, store, task_id):
        name, _ = (await store._places.find([task_id]))[task_id]
        await store.writer.change(name, lambda segment, _: (segment.without([task_id]), None))


class Sharded:
    """Three stores of two kinds as one."""

    def __init__(self, request):
        self.kinds = [Sqlite(request), Memory(request), Memory(request)]

    async def open(self, clock):
        store = ShardedStore.of([await kind.open(clock) for kind in self.kinds])
        await store.open()
        return store

    async def plant(self, store, reservation):
        number = store.places.of_text(reservation.identity)
        await self.kinds[number].plant(store.shards[number].store, reservation)

    async def lose(self, store, task_id):
        (task,) = await store.get([task_id])
        number = store.part_of(task).number
        await self.kinds[number].lose(store.shards[number].store, task_id)


KINDS = {
    "memory": Memory,
    "sqlite": Sqlite,
    "postgres": Postgres,
    "sharded": Sharded,
    "s3": S3,
    "dynamodb": DynamoDB,
    "etcd": Etcd,
}
