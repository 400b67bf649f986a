"""Looking through the records of keys, which may be many: a bounded number at a time, and round and round."""

import functools

import pytest

from tenure.stores.s3 import pruning
from tenure.stores.s3.bucket import Bucket

KEYS = 20


@pytest.fixture(autouse=True)
def _small_looks(monkeypatch):
    monkeypatch.setattr(Bucket, "page", functools.partialmethod(Bucket.page, limit=3))
    monkeypatch.setattr(pruning, "PAGES", 2)
    monkeypatch.setattr(pruning, "READS", 4)


async def rounds(store, clock, limit=1000):
    """What each look forgets, for two rounds through all names."""
    return [await store.prune({}, clock(), limit) for _ in range(2 * KEYS)]


@pytest.mark.parametrize("remembered", [0, 5, 1000])
async def test_every_record_has_its_turn(store, queue, clock, monkeypatch, remembered):
    monkeypatch.setattr(pruning, "REMEMBERED", remembered)
    for number in range(KEYS):
        await queue.submit("greet", idempotency_key=f"k{number}", idempotency_ttl=100 + number % 2)
    assert sum(await rounds(store, clock)) == 0
    clock.advance(100)
    assert sum(await rounds(store, clock)) == KEYS / 2
    clock.advance(1)
    assert sum(await rounds(store, clock)) == KEYS / 2
    assert await store.bucket.names("idempotency/") == []


async def test_a_look_forgets_no_more_than_it_may_and_goes_on_where_it_stopped(store, queue, clock):
    for number in range(KEYS):
        await queue.submit("greet", idempotency_key=f"k{number}", idempotency_ttl=100)
    clock.advance(100)
    assert await rounds(store, clock, limit=1) == [1] * KEYS + [0] * KEYS


async def test_a_look_asks_for_no_more_pages_and_records_than_it_may(store, queue, clock):
    for number in range(KEYS):
        await queue.submit("greet", idempotency_key=f"k{number}")
    await store.prune({}, clock(), 1000)
    before = store.client.counts.copy()
    await store.prune({}, clock(), 1000)
    asked = store.client.counts - before
    assert (asked["GET"], asked["LIST"] <= 2 + 2) == (4, True)


async def test_a_record_that_was_renewed_is_read_again(store, queue, clock):
    await queue.submit("greet", idempotency_key="k", idempotency_ttl=100)
    await store.prune({}, clock(), 1000)
    clock.advance(100)
    await queue.submit("greet", idempotency_key="k", idempotency_ttl=100)
    assert await store.prune({}, clock(), 1000) == 0
    clock.advance(100)
    assert await store.prune({}, clock(), 1000) == 1
