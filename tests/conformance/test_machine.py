"""Every store and the memory store give the same answers to the same random commands."""

import contextlib
import sqlite3
import tempfile
from pathlib import Path

import pytest

from machine_runs import runs
from tenure.stores.dynamodb import DynamoStore
from tenure.stores.etcd import EtcdStore
from tenure.stores.postgres import PostgresStore
from tenure.stores.s3 import S3Store
from tenure.stores.sqlite import SqliteStore
from tenure.testing.conformance.machine import StoreMachine

RUNS = runs(20)


class SqliteMachine(StoreMachine):
    def open_store(self, clock):
        self.folder = tempfile.TemporaryDirectory(prefix="tenure-machine-")
        return SqliteStore(Path(self.folder.name) / "tasks.db", clock)

    def teardown(self):
        super().teardown()
        self.folder.cleanup()


TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = RUNS


EARLIER = """
CREATE TRIGGER earlier AFTER INSERT ON tenure_records WHEN new.seq % 2 = 0 BEGIN
    UPDATE tenure_tasks SET record = new.record WHERE seq = new.seq;
    DELETE FROM tenure_records WHERE seq = new.seq;
END
"""


class EarlierRowsMachine(SqliteMachine):
    """Every other record stands in its row, where earlier versions have put it."""

    def open_store(self, clock):
        store = super().open_store(clock)
        with contextlib.closing(sqlite3.connect(store.path)) as db, db:
            db.execute(EARLIER)
        return store


TestEarlierRowsMachine = EarlierRowsMachine.TestCase
TestEarlierRowsMachine.settings = RUNS


class PostgresMachine(StoreMachine):
    empty = None

    def open_store(self, clock):
        return PostgresStore(self.empty(), clock)


@pytest.mark.usefixtures("_machine_server")
class TestPostgresMachine(PostgresMachine.TestCase):
    settings = RUNS


@pytest.fixture(scope="session")
def _machine_server(empty_postgres):
    PostgresMachine.empty = staticmethod(empty_postgres)


class EtcdMachine(StoreMachine):
    empty = None

    def open_store(self, clock):
        return EtcdStore(self.empty(), clock)


@pytest.mark.usefixtures("_machine_etcd")
class TestEtcdMachine(EtcdMachine.TestCase):
    settings = RUNS


@pytest.fixture(scope="session")
def _machine_etcd(empty_etcd):
    EtcdMachine.empty = staticmethod(empty_etcd)


class DynamoMachine(StoreMachine):
    new = None

    def open_store(self, clock):
        return DynamoStore(self.new(), clock)


@pytest.mark.usefixtures("_machine_table")
class TestDynamoMachine(DynamoMachine.TestCase):
    settings = RUNS


@pytest.fixture(scope="session")
def _machine_table(new_dynamodb):
    DynamoMachine.new = staticmethod(new_dynamodb)


class S3Machine(StoreMachine):
    new = None

    def open_store(self, clock):
        return S3Store(self.new(), clock)


@pytest.mark.usefixtures("_machine_bucket")
class TestS3Machine(S3Machine.TestCase):
    settings = runs(10)


@pytest.fixture(scope="session")
def _machine_bucket(new_s3):
    S3Machine.new = staticmethod(new_s3)
