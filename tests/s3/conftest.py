"""Stores on real servers, with a clock that stands still and a line that can be cut."""

import sys
from pathlib import Path

import pytest

# The helpers stand beside this file.
sys.path.insert(0, str(Path(__file__).parent))

from tenure.queue import Queue
from tenure.stores.s3 import S3Store
from tenure.testing.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def open_store(s3_url, clock):
    """Opens handles on one queue, each like a process of its own."""
    opened = []

    async def open_another(clock=clock, url=s3_url):
        store = S3Store(url, clock)
        store.client.pauses = (0.0, 0.0)
        opened.append(store)
        await store.open()
        store.client.counts.clear()
        return store

    yield open_another
    for each in opened:
        await each.close()


@pytest.fixture
async def store(open_store):
    return await open_store()


@pytest.fixture
def queue(store):
    return Queue(store)
