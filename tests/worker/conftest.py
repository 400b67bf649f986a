import sys
from pathlib import Path

import pytest

from tenure import connect
from tenure.testing import FakeClock

# The processes of a process executor and the tests find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def queue(url):
    """A queue on each store there is."""
    async with connect(url) as queue:
        yield queue


@pytest.fixture
async def memory():
    """For what a worker does by itself, whatever the store."""
    async with connect("memory://") as queue:
        yield queue


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def timed(url, clock):
    """A queue whose time only moves when the test says so."""
    async with connect(url, clock=clock) as queue:
        yield queue
