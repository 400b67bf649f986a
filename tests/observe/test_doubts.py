"""What nobody knew to be written is told when the store shows it, wherever there is somebody to look."""

import asyncio
import logging
import subprocess
import sys
import tracemalloc
from datetime import timedelta

import pytest

import tenure.sync
from tenure import StoreUnavailable
from tenure.errors import DamagedRecord, StoreClosed
from tenure.observe import doubts, events, rounds
from tenure.queue import Queue
from tenure.stores.base import Want
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore
from tenure.sweeper import Sweeper
from tenure.testing import FakeClock, Fault, FaultyStore

MANY = 3 * doubts.PIECE + 7


class Watched(MemoryStore):
    """Counts for how many tasks it is asked, and fails for those that cannot be read."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.damaged = set()

    async def get(self, ids):
        self.asked.append(len(ids))
        for task_id in self.damaged.intersection(ids):
            raise DamagedRecord(task_id, "truncated")
        # Others have their turn while a server works.
        await asyncio.sleep(0)
        return await super().get(ids)


@pytest.fixture
def store():
    return Watched()


@pytest.fixture
def clock():
    return FakeClock()


def unanswered(store, when="after"):
    """A queue that hears nothing of what becomes of its submits."""
    return Queue(FaultyStore(store, plan=[Fault("insert", when)]))


async def submit(queue, *inputs):
    with pytest.raises(StoreUnavailable):
        await queue.submit_many([("greet", each) for each in inputs])


@pytest.fixture
def at_once(monkeypatch):
    """Looks follow each other without a pause."""
    monkeypatch.setattr(rounds, "SOON", 0)


async def until(fact):
    async with asyncio.timeout(30):
        while not fact():
            await asyncio.sleep(0)


async def test_whoever_closes_tells_of_everything_in_doubt_and_asks_for_each_once(store, listener):
    async with unanswered(store).observe(listener) as queue:
        await submit(queue, *range(MANY))
    assert listener.names == ["Submitted"] * MANY
    assert {event.task.input for event in listener.events} == set(range(MANY))
    assert sum(store.asked) == MANY
    assert max(store.asked) == doubts.PIECE


async def of_shards(listener):
    """A queue of two shards that hears nothing of what becomes of its submits, and those shards."""
    shards = [FaultyStore(Watched(), plan=[Fault("insert", "after")]) for _ in range(2)]
    store = ShardedStore.of(shards)
    await store.open()
    queue = Queue(store).observe(listener)
    await submit(queue, *range(20))
    return queue, shards


def stored_in(shard):
    return {task.input for task in shard.store._tasks.values()}


def told(listener):
    return [event.task.input for event in listener.events]


async def test_a_shard_that_is_away_holds_up_no_events_of_the_others(listener):
    queue, (away, there) = await of_shards(listener)
    away._trouble.plan = [Fault("*", "before")]
    await queue.events.look(queue)
    await asyncio.sleep(0)
    assert set(told(listener)) == stored_in(there)
    away.heal()
    await queue.close()
    assert sorted(told(listener)) == list(range(20))


async def test_a_shard_that_does_not_answer_holds_up_no_events_of_the_others(listener, monkeypatch):
    async def hang(ids):
        await asyncio.Event().wait()

    monkeypatch.setattr(events, "LOOK_PATIENCE", 0.1)
    queue, (away, there) = await of_shards(listener)
    away.get, answers = hang, away.get
    await queue.events.look(queue)
    await asyncio.sleep(0)
    assert set(told(listener)) == stored_in(there)
    away.get = answers
    await queue.close()
    assert sorted(told(listener)) == list(range(20))


async def test_what_waits_for_a_shard_that_is_away_is_given_up_after_a_while_too(listener, monkeypatch):
    queue, (away, _) = await of_shards(listener)
    away._trouble.plan = [Fault("*", "before")]
    await queue.events.resolve(queue.store)
    assert len(queue.events.doubts) == len(stored_in(away)) > 0
    monkeypatch.setattr(doubts, "PATIENCE", 0)
    await queue.events.resolve(queue.store)
    assert len(queue.events.doubts) == 0
    await queue.close()


async def test_lapses_that_one_piece_shows_are_told_whatever_becomes_of_the_next(clock, monkeypatch, caplog):
    monkeypatch.setattr(doubts, "PIECE", 5)
    plan = [Fault("swap", "after", nth=1), Fault("get", "before", nth=2)]
    store = FaultyStore(MemoryStore(clock), plan=plan)
    await Queue(store).submit_many([("greet", number) for number in range(10)])
    await store.claim(Want("gone", ("default",), {"greet": 3}, 10, timedelta(seconds=30)))
    clock.advance(30)
    sweeper = Sweeper(store)
    with pytest.raises(StoreUnavailable):
        await sweeper.sweep()
    for lapses in (5, 10):
        await sweeper.sweep()
        assert sum("lapsed in attempt 1" in line for line in caplog.messages) == lapses


async def test_a_worker_that_looks_resolves_everything_in_doubt(store, listener):
    queue = unanswered(store).observe(listener)
    await submit(queue, *range(MANY))
    await queue.events.look(queue)
    await asyncio.sleep(0)
    assert listener.names == ["Submitted"] * MANY
    await queue.close()


async def test_without_a_worker_doubts_are_looked_after_too(store, listener, at_once):
    async with unanswered(store).observe(listener) as queue:
        for number in range(2):
            await submit(queue, number)
            await until(lambda number=number: len(listener.events) == number + 1)
    assert [event.task.input for event in listener.events] == [0, 1]


async def test_nobody_looks_when_nothing_is_in_doubt(store, listener, at_once):
    queue = unanswered(store).observe(listener)
    await submit(queue, 1)
    await until(lambda: listener.events)
    asked = len(store.asked)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(store.asked) == asked
    await queue.close()


async def test_without_a_listener_nothing_is_in_doubt(store, at_once):
    queue = unanswered(store)
    await submit(queue, 1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(queue.events.doubts), store.asked) == (0, [])
    await queue.close()


async def test_looks_that_show_nothing_become_rarer(store, listener, monkeypatch):
    pauses, loop = [], asyncio.get_running_loop()
    later = loop.call_later

    def call_later(pause, callback, *arguments, **keywords):
        if isinstance(getattr(callback, "__self__", None), rounds.Rounds):
            pauses.append(pause)
            pause = 0
        return later(pause, callback, *arguments, **keywords)

    monkeypatch.setattr(loop, "call_later", call_later)
    queue = unanswered(store, "before").observe(listener)
    await submit(queue, 1)
    await until(lambda: len(pauses) >= 5)
    await queue.close()
    assert pauses[:5] == [2, 4, 8, 15, 15]


async def test_no_look_goes_on_when_the_queue_is_closed(listener, at_once):
    class Hanging(Watched):
        async def get(self, ids):
            if not began.is_set():
                began.set()
                await asyncio.Event().wait()
            return await super().get(ids)

    began = asyncio.Event()
    queue = unanswered(Hanging()).observe(listener)
    await submit(queue, 1)
    await began.wait()
    await queue.close()
    assert listener.names == ["Submitted"]
    assert "tenure-rounds" not in {task.get_name() for task in asyncio.all_tasks()}


def test_doubts_of_a_loop_that_has_ended_are_looked_after_on_the_next(store, listener, monkeypatch):
    queue = unanswered(store).observe(listener)
    asyncio.run(submit(queue, 1))
    monkeypatch.setattr(rounds, "SOON", 0)

    async def again():
        await submit(queue, 2)
        await until(lambda: len(listener.events) == 2)
        await queue.close()

    asyncio.run(again())
    assert [event.task.input for event in listener.events] == [1, 2]


def test_a_queue_that_blocks_looks_after_its_doubts_too(listener, at_once):
    with tenure.sync.connect("memory://") as queue:
        queue.observe(listener)
        queue._queue.store = FaultyStore(queue._queue.store, plan=[Fault("insert", "after", nth=1)])
        with pytest.raises(StoreUnavailable):
            queue.submit_many([("greet", 1)])

        async def told():
            await until(lambda: listener.events)

        asyncio.run_coroutine_threadsafe(told(), queue._loop).result()
    assert listener.names == ["Submitted"]


ENDS = """
import asyncio
from tenure import StoreUnavailable
from tenure.observe.events import Subscriber
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.testing import Fault, FaultyStore

class Listener(Subscriber):
    def happened(self, events): ...

async def main():
    queue = Queue(FaultyStore(MemoryStore(), plan=[Fault("insert", "before")])).observe(Listener())
    try:
        await queue.submit_many([("greet", 1)])
    except StoreUnavailable:
        print("in doubt")

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
"""


def test_a_process_with_doubts_ends_without_a_word():
    ended = subprocess.run(
        [sys.executable, "-Xdev", "-c", ENDS], check=False, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in doubt\n", "")


async def test_doubts_keep_no_inputs(store, listener):
    queue = unanswered(store, "before").observe(listener)
    await submit(queue, 1)
    tracemalloc.start()
    try:
        for _ in range(100):
            await submit(queue, "x" * 50_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
    await queue.close()


async def test_large_inputs_are_read_in_small_pieces(store, listener, monkeypatch):
    monkeypatch.setattr(doubts, "ROOM", 1000)
    async with unanswered(store).observe(listener) as queue:
        await submit(queue, *["x" * 400] * 10)
    assert store.asked == [2] * 5
    assert len(listener.events) == 10


async def test_what_is_forgotten_for_want_of_room_is_said_once(store, listener, monkeypatch, caplog):
    monkeypatch.setattr(doubts, "LIMIT", 10)
    queue = unanswered(store).observe(listener)
    with caplog.at_level(logging.WARNING, "tenure.observe"):
        await submit(queue, *range(6))
        await submit(queue, *range(6, 17))
        for _ in range(2):
            await queue.events.resolve(queue.store)
        await queue.close()
    assert [event.task.input for event in listener.events] == list(range(7, 17))
    (record,) = caplog.records
    assert record.getMessage().startswith("7 changes in doubt were forgotten, because there were more than 10")


async def test_what_never_shows_is_given_up_after_a_while_and_not_before(store, listener, monkeypatch):
    queue = unanswered(store, "before").observe(listener)
    await submit(queue, 1)
    await queue.events.resolve(queue.store)
    assert len(queue.events.doubts) == 1
    monkeypatch.setattr(doubts, "PATIENCE", 0)
    await queue.events.resolve(queue.store)
    assert len(queue.events.doubts) == 0
    await queue.close()
    assert listener.events == []


async def test_a_record_that_cannot_be_read_hides_no_other(store, listener):
    queue = unanswered(store).observe(listener)
    await submit(queue, *range(5))
    store.damaged = {next(iter(store._tasks))}
    await queue.close()
    assert [event.task.input for event in listener.events] == [1, 2, 3, 4]


async def test_looks_at_the_same_time_tell_once(store, listener):
    queue = unanswered(store).observe(listener)
    await submit(queue, *range(3))
    await asyncio.gather(*(queue.events.resolve(queue.store) for _ in range(3)))
    await queue.close()
    assert listener.names == ["Submitted"] * 3


async def test_a_submit_made_again_is_told_whichever_of_the_two_was_written(listener):
    plan = [Fault("insert", "after", nth=1), Fault("insert", "before", nth=2)]
    queue = Queue(FaultyStore(MemoryStore(), plan=plan)).observe(listener)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await queue.submit("greet", task_id="one")
    await queue.close()
    assert listener.names == ["Submitted"]


async def test_a_task_that_went_on_is_told_as_it_was_submitted(store, listener):
    queue = unanswered(store).observe(listener)
    await submit(queue, 1)
    (task,) = store._tasks.values()
    await queue.cancel(task.id)
    await queue.close()
    assert listener.names == ["Cancelled", "Submitted"]
    assert listener.events[1].task == task


async def test_a_look_after_the_store_was_closed_is_the_last(store, listener, at_once):
    def check():
        checks.append(1)
        raise StoreClosed

    checks = []
    queue = unanswered(store, "before").observe(listener)
    queue.store.check = check
    await submit(queue, 1)
    await until(lambda: checks)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(checks), store.asked) == (1, [])
