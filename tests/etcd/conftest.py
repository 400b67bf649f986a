"""Clusters that may be harmed: Debian's etcd, because 3.5.0 to 3.5.2 can lose track of themselves when killed."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from network import Network

import debian
from tenure.stores.etcd import EtcdStore
from tenure.testing.clock import FakeClock
from tenure.testing.etcd import EtcdCluster


@pytest.fixture
def cluster():
    """Three members whose ways to each other can be cut."""
    cluster = EtcdCluster(3, programs_in=debian.program("etcd").parent)
    with Network(cluster), cluster:
        yield cluster


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def open_store(etcd_url):
    """Opens handles on one empty store."""
    opened = []

    def open_another(clock=None, url=etcd_url):
        opened.append(EtcdStore(url, clock))
        return opened[-1]

    yield open_another
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store, clock):
    return open_store(clock)
