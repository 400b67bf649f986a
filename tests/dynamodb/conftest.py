"""Stores on a server of one's own, with a clock that stands still and a line that can be cut."""

import itertools

import pytest

from tenure.queue import Queue
from tenure.stores.dynamodb import DynamoStore
from tenure.testing.aws import FaultyTransport
from tenure.testing.clock import FakeClock

numbers = itertools.count()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=["ministack", "dynoxide"])
def server(request):
    """Each of the two servers."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def url(server):
    """The address of an empty store."""
    return f"dynamodb://tasks?endpoint={server.endpoint}&create=true&prefix=own-{next(numbers)}~&poll=0.2"


@pytest.fixture
async def open_store(url, clock):
    """Opens handles on the store; words are options of the address."""
    opened = []

    async def open_another(clock=clock, **options):
        store = DynamoStore(url + "".join(f"&{name}={value}" for name, value in options.items()), clock)
        store.client.pauses = (0.0, 0.0)
        opened.append(store)
        await store.open()
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


class Line:
    """What happens to requests between a store and its server: the first one that fits a wish gets its fault."""

    def __init__(self, store):
        self.wishes = []
        store.client.transport = self.transport = FaultyTransport(store.client.transport, self.plan)

    def expect(self, operation, *faults):
        self.wishes += [(operation, fault) for fault in faults]

    def plan(self, operation, body):
        for wish in self.wishes:
            if wish[0] == operation:
                self.wishes.remove(wish)
                return wish[1]
        return None


@pytest.fixture
def line(store):
    return Line(store)


def items(store):
    """All items of a store, as they stand in the table."""

    async def scan():
        found, start = [], {}
        while True:
            answer = await store.table.call("Scan", ConsistentRead=True, **start)
            found += answer["Items"]
            if not answer.get("LastEvaluatedKey"):
                return [item for item in found if item[store.address.pk]["S"].startswith(store.address.prefix)]
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    return scan()
