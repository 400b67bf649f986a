"""Time enters the store once, and no machine's clock on the wall changes it."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import debian
from tenure import connect
from tenure.queue import Queue
from tenure.stores.etcd import EtcdStore, timekeeping
from tenure.stores.etcd.clock import STALE_AFTER, LogClock
from tenure.stores.etcd.server_time import server_time

HOUR = timedelta(hours=1)
NEAR = timedelta(seconds=2)

WRONG_CLOCK = """
import asyncio, sys
from datetime import UTC, datetime
from tenure import Worker, connect

async def main():
    async with connect(sys.argv[1]) as queue:
        worker = Worker(queue, worker_id="wrong", lease=3600)
        worker.task("other")(lambda number: number)
        print(datetime.now(UTC).isoformat(), (await queue.now()).isoformat(), flush=True)
        await worker.run()

asyncio.run(main())
"""


def with_wrong_clock(url, offset):
    """A worker in a process whose clock on the wall is off, and which counts seconds like everybody."""
    library = next(debian.FOLDER.glob("**/libfaketimeMT.so.1"))
    return subprocess.Popen(
        [sys.executable, "-c", WRONG_CLOCK, url],
        stdout=subprocess.PIPE,
        env={**os.environ, "LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
    )


def first_words(process):
    wall, store = process.stdout.readline().split()
    return datetime.fromisoformat(wall.decode()), datetime.fromisoformat(store.decode())


@pytest.mark.parametrize("offset", ["+1h", "-1h"])
async def test_a_worker_whose_clock_is_an_hour_off_changes_nothing_even_when_it_keeps_the_time(etcd_url, offset):
    process = await asyncio.to_thread(with_wrong_clock, etcd_url, offset)
    try:
        wall, told = await asyncio.to_thread(first_words, process)
        true = datetime.now(UTC)
        assert abs(abs(wall - true) - HOUR) < 60 * NEAR, "its clock is right: the test shows nothing"
        assert abs(told - true) < 15 * NEAR
        async with connect(etcd_url) as queue:
            assert abs(await queue.now() - datetime.now(UTC)) < 15 * NEAR
            later = await queue.submit("work", delay=60)
            due = await queue.submit("work", ttl=60)
            (held,) = (await queue.store.claim(_want())).tasks
            assert held.id == due.id, later
            assert abs(held.lease_expires_at - datetime.now(UTC) - timedelta(seconds=30)) < 15 * NEAR
            assert await queue.store.overdue(await queue.now(), 10) == []
    finally:
        process.kill()
        process.communicate()


def _want():
    from tenure.testing.conformance.steps import want

    return want(10, types=["work"])


async def test_time_goes_on_when_the_one_who_keeps_it_leaves_and_never_back(open_store):
    first, second = open_store(), open_store()
    before = await first.now()
    between = await second.now()
    await first.close()
    second._log_clock.trust(0)
    after = await second.now()
    assert second._log_clock.keeping
    assert before <= between <= after < before + timedelta(seconds=10)


async def test_only_one_process_keeps_the_time_and_the_others_follow_it(open_store):
    stores = [open_store() for _ in range(5)]
    times = await asyncio.gather(*(store.now() for store in stores))
    assert [store._log_clock.keeping for store in stores].count(True) == 1
    assert max(times) - min(times) < NEAR


async def test_while_nobody_asks_nothing_is_stamped(open_store):
    store = open_store()
    queue = Queue(store)
    await queue.submit("work")
    revision = int((await store.about())["revision"])
    for _ in range(20):
        await store.now()
    assert await store.overdue(await store.now(), 10) == []
    assert int((await store.about())["revision"]) == revision, "something was written"


async def test_a_sweep_is_not_sent_when_nothing_can_have_lapsed(store, clock):
    queue = Queue(store)
    await queue.submit("greet", ttl=60)
    await store.claim(_greet())
    before = store._db.writer.transactions
    assert await store.overdue(clock(), 100) == []
    await store.claim(_greet())
    assert store._db.writer.transactions == before


def _greet():
    from tenure.testing.conformance.steps import want

    return want(1)


async def test_a_store_left_alone_for_long_begins_with_the_time_of_the_servers_and_not_before_its_last_stamp(
    open_store,
):
    first = open_store()
    await first.now()
    first._log_clock.shift(600)
    ahead = first._log_clock.now()
    await first._timekeeper._stamp()
    await first.close()
    assert await open_store().now() >= ahead


async def test_a_keeper_that_is_ahead_of_the_servers_goes_slower_and_one_behind_catches_up(open_store, monkeypatch):
    monkeypatch.setattr(timekeeping, "COMPARE_EVERY", 0.0)
    store = open_store()
    await store.now()
    keeper, clock = store._timekeeper, store._log_clock
    clock.shift(-100)
    await keeper._compare()
    assert abs(clock.now() - datetime.now(UTC)) < NEAR
    clock.shift(100)
    ahead = clock.now()
    keeper._compared -= 60
    await keeper._compare()
    assert timedelta(seconds=2) < ahead - clock.now() < timedelta(seconds=4)


async def test_the_servers_tell_their_time_to_the_second(etcd_server):
    store = EtcdStore(etcd_server.url())
    assert abs(await server_time(store.address) - datetime.now(UTC)) < NEAR


def test_a_stamp_is_older_than_the_moment_at_which_it_is_seen():
    clock = LogClock()
    stamp = datetime(2026, 1, 28, tzinfo=UTC)
    clock.hear(stamp)
    first = clock.now()
    clock.hear(stamp)
    assert clock.now() >= first, "an old stamp set the clock back"
    clock.hear(stamp + HOUR)
    assert clock.now() >= stamp + HOUR


def test_a_time_that_somebody_has_written_is_not_later_than_now_unless_it_came_from_elsewhere():
    clock = LogClock()
    stamp = datetime(2026, 1, 28, tzinfo=UTC)
    clock.hear(stamp)
    clock.hear_of(stamp + timedelta(seconds=1))
    assert clock.now() >= stamp + timedelta(seconds=1)
    clock.hear_of(stamp + HOUR)
    assert clock.now() < stamp + timedelta(seconds=30)


def test_an_hour_without_stamps_is_asked_about(monkeypatch):
    clock = LogClock()
    clock.hear(datetime(2026, 1, 28, tzinfo=UTC))
    assert clock.known
    clock.trust(0)
    assert not clock.known
    assert STALE_AFTER < 60


def test_nothing_else_in_the_store_reads_the_clock_on_the_wall():
    folder = Path(timekeeping.__file__).parent
    readers = [path.name for path in folder.glob("*.py") if "datetime.now(" in path.read_text()]
    assert readers == ["timekeeping.py"]
