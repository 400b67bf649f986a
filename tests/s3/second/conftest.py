"""Another server of S3: topics of the conformance suite in which servers may differ."""

import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "conformance"))

from kinds import S3

from tenure.testing.conformance.fixtures import *  # noqa: F403 - the fixtures of the suite
from tenure.testing.s3 import prepare

numbers = itertools.count()


@pytest.fixture
def s3_url(ministack):
    return prepare(ministack, "tests", f"second-{next(numbers)}")


@pytest.fixture
def tamper(request):
    return S3(request)


@pytest.fixture
async def open_store(tamper):
    opened = []

    async def open_another(clock):
        opened.append(await tamper.open(clock))
        return opened[-1]

    yield open_another
    for each in opened:
        await each.close()
