"""Whoever waits for something to be written is woken by whoever writes, in whichever process."""

import asyncio
import os
import threading

import pytest

from tenure import connect
from tenure.queue import Queue
from tenure.stores.sqlite import SqliteStore, waking

AGES = 3600.0


@pytest.fixture
async def stores(tmp_path):
    """Two, as in two processes."""
    waiting, writing = SqliteStore(tmp_path / "jobs.db"), SqliteStore(tmp_path / "jobs.db")
    yield waiting, writing
    await waiting.close()
    await writing.close()


async def write(store):
    await Queue(store).submit("job")


async def asleep(store):
    """A wait that has begun."""
    wait = asyncio.ensure_future(store.wait(store.mark(), AGES))
    while not store._wakes._sleepers:
        await asyncio.sleep(0)
    return wait


async def is_woken(waiting, writing):
    """Sleep in one until the other writes."""
    wait = await asleep(waiting)
    await write(writing)
    async with asyncio.timeout(60):
        await wait


async def test_another_process_is_told_and_need_not_look(stores, monkeypatch):
    monkeypatch.setattr(waking, "LISTENING", AGES)
    waiting, writing = stores
    await is_woken(waiting, writing)


async def test_what_was_written_before_the_sleep_began_is_seen(stores, monkeypatch):
    monkeypatch.setattr(waking, "LISTENING", AGES)
    waiting, writing = stores
    mark = waiting.mark()
    await write(writing)
    async with asyncio.timeout(60):
        await waiting.wait(mark, AGES)


async def test_a_process_that_died_before_it_could_tell_is_noticed_by_a_look(stores, monkeypatch):
    waiting, writing = stores
    monkeypatch.setattr(writing._wakes, "_log", "/nowhere")
    await is_woken(waiting, writing)


async def test_a_word_without_a_commit_ends_no_wait(stores, tmp_path):
    waiting, _ = stores
    wait = await asleep(waiting)
    (first,) = waiting._wakes._sleepers
    (tmp_path / "jobs.db-wal").read_bytes()
    while first in waiting._wakes._sleepers or not waiting._wakes._sleepers:
        await asyncio.sleep(0)
    assert not wait.done()
    wait.cancel()


async def test_where_the_system_cannot_tell_waiters_look_by_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(waking, "_listen", lambda _: None)
    waiting, writing = SqliteStore(tmp_path / "jobs.db"), SqliteStore(tmp_path / "jobs.db")
    await is_woken(waiting, writing)
    await waiting.close()
    await writing.close()


@pytest.mark.parametrize("failing", ["inotify_init1", "inotify_add_watch"])
def test_a_system_that_has_no_more_to_give_is_no_error(tmp_path, monkeypatch, failing):
    class Library:
        def inotify_init1(self, _):
            return -1 if failing == "inotify_init1" else os.open(tmp_path, os.O_RDONLY)

        def inotify_add_watch(self, *_):
            return -1

    monkeypatch.setattr(waking.ctypes, "CDLL", lambda *_, **__: Library())
    assert waking._listen("any") is None


def test_a_system_that_has_no_such_thing_is_no_error(monkeypatch):
    monkeypatch.setattr(waking.ctypes, "CDLL", lambda *_, **__: object())
    assert waking._listen("any") is None


async def test_a_file_behind_a_link_is_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setattr(waking, "LISTENING", AGES)
    writing = SqliteStore(tmp_path / "jobs.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    waiting = SqliteStore(tmp_path / "link.db")
    await is_woken(waiting, writing)
    await waiting.close()
    await writing.close()


async def test_closing_ends_every_wait_in_every_loop_and_leaves_no_descriptor(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    waits = [await asleep(store) for _ in range(3)]
    elsewhere = threading.Thread(target=lambda: asyncio.run(store.wait(store.mark(), AGES)))
    elsewhere.start()
    while len(store._wakes._sleepers) < 4:
        await asyncio.sleep(0)
    descriptor = store._wakes._news
    await store.close()
    await asyncio.gather(*waits)
    await asyncio.to_thread(elsewhere.join)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_a_loop_that_was_closed_with_a_sleeper_in_it_fails_no_commit(stores):
    waiting, _ = stores

    def leave_one_asleep():
        loop = asyncio.new_event_loop()
        sleeper = loop.create_task(waiting.wait(waiting.mark(), AGES))
        while not waiting._wakes._sleepers:
            loop.run_until_complete(asyncio.sleep(0))
        sleeper._log_destroy_pending = False
        loop.close()
        return sleeper

    asleep_for_ever = await asyncio.to_thread(leave_one_asleep)
    await write(waiting)
    assert not asleep_for_ever.done()


async def test_an_idle_worker_sleeps(tmp_path):
    """How often it wakes up is what an idle worker costs."""
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as queue:
        sleeps = 0
        sleep = queue.store._wakes.sleep

        async def counted(seconds):
            nonlocal sleeps
            sleeps += 1
            return await sleep(seconds)

        queue.store._wakes.sleep = counted
        await queue.store.wait(queue.store.mark(), 0.5)
        assert sleeps <= 0.5 / waking.LISTENING + 2
