"""The fixtures that the conformance tests share; `open_store` and `tamper` are the store author's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from tenure.idempotency import Reservation
from tenure.queue import Queue
from tenure.stores.base import Store
from tenure.testing.clock import FakeClock

__all__ = ["OpenStore", "Tampering", "clock", "part", "queue", "queue_of_part", "store"]

OpenStore = Callable[[FakeClock], Awaitable[Store]]


class Tampering(Protocol):
    """Changes a storage behind the store's back."""

    async def plant(self, store: Store, reservation: Reservation) -> None:
        """Write the record of a key, over another if need be."""

    async def lose(self, store: Store, task_id: str) -> None:
        """Make a task disappear, and leave everything else."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(open_store: OpenStore, clock: FakeClock) -> Store:
    return await open_store(clock)


@pytest.fixture
def queue(store: Store) -> Queue:
    return Queue(store)


@pytest.fixture
def part(store: Store) -> Store:
    """One part of the store, which for most stores is all of it: which of many comes first is promised within one."""
    return store.parts()[0]


@pytest.fixture
def queue_of_part(part: Store) -> Queue:
    return Queue(part)
