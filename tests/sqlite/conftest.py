import sys
from pathlib import Path

import pytest

from tenure import connect
from tenure.testing import FakeClock

# The tests and the programs they start find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
async def queue(url):
    async with connect(url) as queue:
        yield queue


@pytest.fixture
def clock():
    return FakeClock()
