import sys
from pathlib import Path

import pytest

from tenure import connect
from tenure.observe.events import Subscriber

# Helpers stand beside this file and are found by name.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]


class Listener(Subscriber):
    """Keeps all it is told."""

    def __init__(self):
        self.batches = []

    def happened(self, events):
        self.batches.append(list(events))

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    @property
    def names(self):
        return [type(event).__name__ for event in self.events]


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
async def queue():
    async with connect("memory://") as queue:
        yield queue


@pytest.fixture
async def observed(queue, listener):
    """A queue that the listener listens to."""
    return queue.observe(listener)
