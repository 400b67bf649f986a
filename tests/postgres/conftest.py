import sys
from pathlib import Path

import pytest

from tenure import connect
from tenure.testing.postgres import FAST, PostgresServer

# The tests and the programs they start find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
async def queue(postgres_url):
    """A queue on an empty store, on the server's own clock."""
    async with connect(postgres_url) as queue:
        yield queue


@pytest.fixture
def own_server():
    """A server that a test may stop, restart and fill up."""
    with PostgresServer(*FAST, "max_connections=30") as server:
        yield server


@pytest.fixture
def ledger(postgres_admin):
    """A table of the user's own, in the same database."""
    postgres_admin.execute("DROP TABLE IF EXISTS ledger; CREATE TABLE ledger (who text, amount integer)")
    yield lambda: postgres_admin.execute("SELECT who, amount FROM ledger ORDER BY 1, 2").fetchall()
    postgres_admin.execute("DROP TABLE ledger")
