"""What tests of several folders share."""

import sys
from pathlib import Path

import psycopg
import pytest

# Tests find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))

from tenure.stores.postgres.migrating import scripts
from tenure.testing.postgres import FAST, PostgresServer

TABLES = (
    "tasks", "ended", "turns", "tags", "counts", "count_changes", "reservations", "stones", "notes", "listeners"
)  # fmt: skip


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of this process that do not harm it."""
    with PostgresServer(*FAST, "max_connections=200") as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            for script in scripts("tenure"):
                admin.execute(script)
        yield server


@pytest.fixture(scope="session")
def postgres_admin(postgres_server):
    """A connection beside those of the store."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        yield admin


@pytest.fixture(scope="session")
def empty_postgres(postgres_server, postgres_admin):
    """Empties the schema and gives its address. Deleting what one test left is much faster than a new schema."""
    delete = "".join(f"DELETE FROM tenure.{table};" for table in TABLES)

    def empty():
        postgres_admin.execute(delete)
        return postgres_server.url

    return empty


@pytest.fixture
def postgres_url(empty_postgres):
    """The address of an empty store."""
    return empty_postgres()
