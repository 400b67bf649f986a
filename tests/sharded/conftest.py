import sys
from pathlib import Path

import pytest

from tenure.testing import FakeClock

# The tests and the programs they start find the modules beside this file by name.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def files(tmp_path):
    """The addresses of four SQLite files."""
    return [f"sqlite:///{tmp_path / f'shard-{number}.db'}" for number in range(4)]
