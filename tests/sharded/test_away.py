"""A shard that is down delays its own tasks and nothing else, and is told of."""

import asyncio
import contextlib
import signal
import uuid
from datetime import timedelta
from types import SimpleNamespace

import pytest
from shard_steps import recorded, text_in, work_off

from tenure import Worker, connect
from tenure.doctor import examine
from tenure.errors import PartlySubmitted, StoreUnavailable
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore, health
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing import Fault, FaultyStore
from tenure.testing.checker import check
from tenure.testing.conformance.steps import claim, everything, ids
from tenure.testing.postgres import PostgresServer
from tenure.worker import backoff


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in (health, backoff):
        monkeypatch.setattr(module, "FIRST", 0.01)
        monkeypatch.setattr(module, "LONGEST", 0.05)


@pytest.fixture(scope="module")
def one_server():
    """A server that loses nothing when it is killed."""
    with PostgresServer("max_connections=50") as server:
        yield server


@pytest.fixture
def server(one_server):
    yield one_server
    one_server.restart()


@pytest.fixture
def urls(server, files):
    """Shard 0 is a file, shard 1 a server that can be killed."""
    return [files[0], f"{server.url}?schema=s{uuid.uuid4().hex}"]


@pytest.fixture
async def queue(urls):
    async with connect(urls) as queue:
        yield queue


def kept_in(queue, shard, count):
    """Ids that lead to this shard."""
    return [text_in(queue.store, shard, f"s{shard}-{number}") for number in range(count)]


async def submitted(queue, shard, count=5):
    return [await queue.submit("greet", shard, task_id=each) for each in kept_in(queue, shard, count)]


async def until(condition):
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)


def test_calls_that_began_before_a_shard_went_or_came_back_do_not_say_how_it_is_now(monkeypatch, caplog):
    clock = iter(range(100))
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    shard, error = health.Health("queue-group-1"), StoreUnavailable("no answer")
    before = next(clock)
    with recorded(caplog, "tenure.shards") as lines:
        shard.failed(error, before)
        shard.worked(before)
        assert shard.away is error
        during = next(clock)
        shard.failed(error, during)
        shard.worked(during)
        assert shard.away is None
        for began in (before, during):
            shard.failed(error, began)
        assert shard.away is None
        shard.failed(error, next(clock))
        assert shard.away is error
    assert ["is back" in line for line in lines] == [False, True, False]


async def test_producers_of_the_other_shard_go_on(queue, server):
    server.stop(signal.SIGKILL)
    answers = await asyncio.gather(
        *(queue.submit("greet", task_id=each) for shard in (0, 1) for each in kept_in(queue, shard, 5)),
        return_exceptions=True,
    )
    assert [answer.created for answer in answers[:5]] == [True] * 5
    assert all(isinstance(answer, StoreUnavailable) for answer in answers[5:])


async def test_what_is_known_of_the_others_is_told_and_one_line_says_what_is_missing(queue, server, caplog):
    mine, theirs = await submitted(queue, 0), await submitted(queue, 1)
    server.stop(signal.SIGKILL)
    with recorded(caplog, "tenure.shards") as lines:
        for _ in range(3):
            assert ids((await queue.list()).tasks) == ids(reversed(mine))
            assert (await queue.counts())[TaskStatus.Pending] == len(mine)
            assert (await queue.stats()).counts["pending"] == len(mine)
        assert (await queue.cancel(mine[0].id)).status is TaskStatus.Cancelled
    (line,) = lines
    assert "queue-group-1 (postgresql://" in line
    assert "its tasks wait, all others go on" in line
    with pytest.raises(StoreUnavailable):
        await queue.get(theirs[0].id)
    with pytest.raises(StoreUnavailable):
        await queue.get("nobody knows where this is")
    with pytest.raises(StoreUnavailable):
        await queue.store.dump()
    with recorded(caplog, "tenure.shards") as lines:
        server.start()
        await until(lambda: _is_there(queue, theirs[0]))
    assert ["is back" in line for line in lines] == [True]


async def _is_there(queue, task):
    with contextlib.suppress(StoreUnavailable):
        return await queue.get(task.id) is not None


async def test_a_batch_that_reaches_one_shard_only_says_what_was_stored(queue, server):
    # Without the time of the shard, nothing is sent to any.
    await queue.store.shards[1].now()
    server.stop(signal.SIGKILL)
    with pytest.raises(PartlySubmitted) as partly:
        await queue.submit_many([("greet", number) for number in range(40)])
    stored = await everything(queue.store.shards[0])
    assert sorted(ids(partly.value.created)) == sorted(ids(stored))
    assert 0 < len(stored) < 40


async def test_a_worker_goes_on_with_the_others_and_finishes_the_rest_when_the_shard_is_back(queue, server, caplog):
    """The server is killed while tasks of both shards run: endings and leases of the other go on without it."""
    mine, theirs = await submitted(queue, 0, 10), await submitted(queue, 1, 10)
    worker = Worker(queue, concurrency=20, lease=timedelta(seconds=60), poll=0.05, sweep_interval=0.05)
    started, may_end, ran = set(), asyncio.Event(), []

    @worker.task("greet")
    async def greet(input, context):
        started.add(context.task.id)
        await may_end.wait()
        ran.append(context.task.id)

    with recorded(caplog, "tenure.shards") as lines:
        running = asyncio.ensure_future(worker.run())
        await until(lambda: _true(len(started) == 20))
        server.stop(signal.SIGKILL)
        may_end.set()

        async def mine_are_done():
            tasks = await queue.store.get(ids(mine))
            return all(task.status is TaskStatus.Completed for task in tasks)

        await until(mine_are_done)
        later = await queue.submit("greet", "later", task_id=text_in(queue.store, 0, "later"))
        await until(lambda: _ended(queue, later))
        server.start()
        await until(lambda: _ended(queue, *theirs))
    worker.stop()
    await running
    stored = await everything(queue.store)
    assert check(stored, ids([*mine, *theirs, later]), all_ended=True) == []
    assert {(task.status, task.attempts) for task in stored} == {(TaskStatus.Completed, 0)}
    assert len(ran) == len(set(ran)) == 21
    assert ["cannot be reached" in line for line in lines] == [True, False]


async def _true(value):
    return value


async def _ended(queue, *tasks):
    with contextlib.suppress(StoreUnavailable):
        return all(task.status.ended for task in await queue.store.get(ids(tasks)))


async def test_retention_goes_on_in_the_others_while_nobody_knows_what_was_swept_in_the_one_that_is_away(clock):
    away, there = FaultyStore(MemoryStore(clock)), MemoryStore(clock)
    store = ShardedStore.of([away, there])
    await store.open()
    queue, sweeper = Queue(store), Sweeper(store, {"expired": 60})
    tasks = [await queue.submit("greet", ttl=5, task_id=text_in(store, shard)) for shard in (0, 1)]
    clock.advance(5)
    away._trouble.plan = [Fault("swap", "after"), Fault("get", "before")]
    await sweeper.sweep()
    away._trouble.plan = [Fault("*", "before")]
    clock.advance(60)
    await sweeper.sweep()
    assert await sweeper.prune() == 1
    away.heal()
    assert [task and task.status for task in await store.get(ids(tasks))] == [TaskStatus.Expired, None]


async def test_a_queue_is_opened_while_a_shard_is_away_but_not_the_first_time(server, urls):
    server.stop(signal.SIGKILL)
    with pytest.raises(StoreUnavailable, match="The first time, all shards must be there"):
        await connect(urls)
    server.start()
    async with connect(urls) as queue:
        mine, theirs = await submitted(queue, 0), await submitted(queue, 1)
    server.stop(signal.SIGKILL)
    async with connect(urls) as queue:
        assert await work_off(queue) == {0: len(mine), 1: 0}
        server.start()
        await until(lambda: _is_there(queue, theirs[0]))
        assert await work_off(queue) == {0: 0, 1: len(theirs)}


async def test_without_any_shard_there_is_no_queue(server):
    urls = [f"{server.url}?schema={name}{uuid.uuid4().hex}" for name in "ab"]
    async with connect(urls) as queue:
        server.stop(signal.SIGKILL)
        for call in (queue.list, queue.counts, lambda: claim(queue.store)):
            with pytest.raises(StoreUnavailable):
                await call()
    with pytest.raises(StoreUnavailable):
        await connect(urls)


async def test_doctor_and_about_name_the_shard_that_is_away(queue, server):
    healthy = {finding.name: finding.level async for finding in examine(queue)}
    names = [shard.name for shard in queue.store.shards]
    assert [healthy[name] for name in names] == ["ok", "ok"]
    server.stop(signal.SIGKILL)
    findings = {finding.name: finding async for finding in examine(queue)}
    assert [findings[name].level for name in names] == ["ok", "problem"]
    assert "cannot be reached" in findings[names[1]].text
    about = await queue.store.about()
    assert about["shards"] == "2"
    assert about[names[1]].startswith("away: ")
