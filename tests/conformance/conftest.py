"""The conformance suite runs on every store of this project."""

import sys
from pathlib import Path

import pytest

# The kinds stand beside this file.
sys.path.insert(0, str(Path(__file__).parent))

from kinds import KINDS

from tenure.testing.conformance.fixtures import *  # noqa: F403 - the fixtures of the suite


@pytest.fixture(params=list(KINDS))
def kind_of_store(request):
    return KINDS[request.param](request)


@pytest.fixture
async def open_store(kind_of_store):
    opened = []

    async def open_another(clock):
        opened.append(await kind_of_store.open(clock))
        return opened[-1]

    yield open_another
    for each in opened:
        await each.close()


@pytest.fixture
def tamper(kind_of_store):
    return kind_of_store
