"""Wake-ups: the watch goes on where it was, and begins anew after a compaction."""

import asyncio

import pytest
from network import Way

from tenure.queue import Queue
from tenure.stores.etcd import EtcdStore

LONG = 300


@pytest.fixture
def way(etcd_server):
    with Way(etcd_server.members[0].port) as way:
        yield way


@pytest.fixture
async def far(way, etcd_url, clock):
    prefix = etcd_url.partition("127.0.0.1:")[2].partition("/")[2]
    store = EtcdStore(f"etcd://127.0.0.1:{way.port}/{prefix}?timeout=3", clock)
    yield store
    await store.close()


async def watching(store):
    """Return when the watch stands."""
    await store.wait(store.mark(), 0.05)
    async with asyncio.timeout(20):
        while not store._news.watches:
            await asyncio.sleep(0.01)


async def test_what_was_written_while_the_watch_was_broken_is_heard_when_it_is_back(store, far, way):
    await Queue(far).submit("greet")
    await watching(far)
    mark = far.mark()
    way.cut()
    await Queue(store).submit("greet")
    way.heal()
    async with asyncio.timeout(20):
        await far.wait(mark, LONG)
    assert far._news.count > mark.heard
    assert far._news.watches > 1


async def test_after_a_compaction_everybody_is_woken_to_look_for_themselves(store, far, way, etcd_server):
    await Queue(far).submit("greet")
    await watching(far)
    mark = far.mark()
    way.cut()
    for number in range(5):
        await Queue(store).submit("greet", number)
    etcd_server.control("compact", (await store.about())["revision"])
    way.heal()
    async with asyncio.timeout(20):
        await far.wait(mark, LONG)
    assert far._news.watches > 1
    mark = far.mark()
    waiting = asyncio.ensure_future(far.wait(mark, LONG))
    await asyncio.sleep(0)
    await Queue(store).submit("greet")
    async with asyncio.timeout(20):
        await waiting


async def test_a_watch_that_cannot_be_had_does_not_end_the_wait_early_or_late(far, way):
    await Queue(far).submit("greet")
    way.cut()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await far.wait(far.mark(), 0.2)
    assert 0.19 < loop.time() - begun < 20


async def test_handles_that_were_closed_leave_nothing_behind_that_claims_would_read(open_store, clock):
    first, second = open_store(clock), open_store(clock)
    task = await Queue(first).submit("greet")
    await Queue(first).cancel(task.id)
    assert len(await told(second)) == 1
    await first.close()
    assert await told(second) == []


async def told(store):
    from tenure.stores.etcd.layout import CHANGED, after
    from tenure.stores.etcd.requests import walk

    folder = store._db.layout.folder(b"news", CHANGED)
    (found,) = await store._db.read([walk(folder, after(folder))])
    return list(found)
