"""Notes: small named records with compare-and-swap, for pauses, workers and whatever comes."""

import asyncio

from tenure.queue import Queue
from tenure.stores.base import Note


async def put(store, key, value, **condition):
    return await store.put_note(Note("kind", key, value), **condition)


async def test_a_note_reads_back_with_its_time_and_version(store, clock):
    value = {"text": "☕", "number": 1.5, "none": None, "list": [1, {"a": []}]}
    assert await put(store, "a", value) is True
    assert await store.notes("kind") == [Note("kind", "a", value, clock(), 1)]
    clock.advance(1)
    assert await put(store, "a", {"new": True}) is True
    assert await store.notes("kind") == [Note("kind", "a", {"new": True}, clock(), 2)]


async def test_notes_come_by_key_and_only_of_their_kind(store):
    for key in ("b", "a", "ä", "A/1"):
        await put(store, key, {"key": key})
    await store.put_note(Note("other", "a", {"x": 1}))
    assert [note.key for note in await store.notes("kind")] == ["A/1", "a", "b", "ä"]
    assert await store.notes("nothing") == []


async def test_a_note_without_a_value_is_deleted(store):
    await put(store, "a", {"x": 1})
    assert await put(store, "a", {}) is True
    assert await store.notes("kind") == []
    assert await put(store, "a", {}) is True


async def test_a_note_is_written_only_over_the_expected_version(store):
    assert await put(store, "a", {"x": 1}, if_version=1) is False
    assert await put(store, "a", {"x": 1}, if_version=0) is True
    assert await put(store, "a", {"x": 2}, if_version=0) is False
    assert await put(store, "a", {"x": 2}, if_version=1) is True
    assert await put(store, "a", {}, if_version=1) is False
    assert [(note.value, note.version) for note in await store.notes("kind")] == [({"x": 2}, 2)]
    assert await put(store, "a", {}, if_version=2) is True
    assert await put(store, "a", {"x": 3}, if_version=0) is True


async def test_of_fifty_writers_with_one_expectation_one_wins(open_store, clock):
    stores = [await open_store(clock) for _ in range(5)]
    answers = await asyncio.gather(
        *(put(stores[number % 5], "leader", {"who": number}, if_version=0) for number in range(50))
    )
    assert answers.count(True) == 1
    (note,) = await stores[0].notes("kind")
    assert note.value == {"who": answers.index(True)}


async def test_a_pause_is_seen_by_every_handle(queue, open_store, clock):
    other = Queue(await open_store(clock))
    await queue.pause("mail", "holiday")
    assert await other.paused() == {"mail": "holiday"}
    await other.resume("mail")
    assert await queue.paused() == {}
