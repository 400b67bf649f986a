"""The conformance suite runs on every store of this project."""

import contextlib
import sqlite3

import msgspec
import pytest

from tenure.stores.memory import MemoryStore
from tenure.stores.postgres import PostgresStore
from tenure.stores.sqlite import SqliteStore
from tenure.testing.conformance.fixtures import *  # noqa: F403 - the fixtures of the suite


class MemoryTampering:
    async def plant(self, store, reservation):
        store._reservations[reservation.identity] = reservation

    async def lose(self, store, task_id):
        del store._tasks[task_id], store._order[task_id]


class SqliteTampering:
    async def plant(self, store, reservation):
        self._execute(
            store,
            "INSERT OR REPLACE INTO tenure_reservations (identity, record) VALUES (?, ?)",
            (reservation.identity, msgspec.json.encode(reservation)),
        )

    async def lose(self, store, task_id):
        self._execute(store, "DELETE FROM tenure_tasks WHERE id = ?", (task_id,))

    def _execute(self, store, statement, values):
        with contextlib.closing(sqlite3.connect(store.path, timeout=60)) as connection, connection:
            connection.execute(statement, values)


class PostgresTampering:
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


TAMPERING = {"memory": MemoryTampering, "sqlite": SqliteTampering, "postgres": PostgresTampering}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind_of_store(request):
    return request.param


@pytest.fixture
async def open_store(kind_of_store, tmp_path, request):
    opened = []
    url = request.getfixturevalue("postgres_url") if kind_of_store == "postgres" else None

    async def open_another(clock):
        if kind_of_store == "memory" and opened:
            return opened[0]
        if kind_of_store == "memory":
            opened.append(MemoryStore(clock))
        elif kind_of_store == "sqlite":
            opened.append(SqliteStore(tmp_path / "tasks.db", clock))
        else:
            opened.append(PostgresStore(url, clock))
        return opened[-1]

    yield open_another
    for each in opened:
        await each.close()


@pytest.fixture
def tamper(kind_of_store):
    return TAMPERING[kind_of_store]()
