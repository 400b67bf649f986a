"""A server that restarts, refuses or hangs, and connections that break: workers wait, carry on, and lose nothing."""

import asyncio
import logging
import signal
from datetime import timedelta
from pathlib import Path

import asyncpg
import psycopg
import pytest
from cutting import Proxy

from tenure import StoreFull, StoreUnavailable, StoreUnusable, Worker, connect
from tenure.queue import Queue
from tenure.stores.postgres import PostgresStore
from tenure.stores.postgres.trouble import explained
from tenure.testing import check
from tenure.testing.conformance.steps import claim, claim_one, everything
from tenure.testing.postgres import PostgresServer

SURVIVES_A_CRASH = ("fsync=off", "full_page_writes=off")


async def insist(call):
    """Make a call with a key again until it is answered, as a producer does."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.01)


class Run:
    """Producers and a worker on a store in trouble; an account of everything in the end."""

    def __init__(self, queue):
        self.queue = queue
        self.acknowledged, self.executions = [], []

    async def produce(self, count, pause=0.0):
        for number in range(count):
            key = {"idempotency_key": f"{number}"}
            if number % 3 == 0:
                key["ordering_key"] = "k"
            task = await insist(lambda n=number, k=key: self.queue.submit("greet", n, **k))
            self.acknowledged.append(task.id)
            await asyncio.sleep(pause)

    def worker(self, **settings):
        settings = {"concurrency": 3, "lease": 1.0, "poll": 0.05, "sweep_interval": 0.1, **settings}
        worker = Worker(self.queue, **settings)

        @worker.middleware
        async def count(context, call_next):
            self.executions.append((context.task.id, context.fence))
            return await call_next()

        @worker.task("greet")
        async def greet(input: int) -> int:
            await asyncio.sleep(0.001)
            return input

        return worker

    async def account(self, url, count):
        async with connect(url) as sound:
            await self.until_all_ended(sound, count)
            tasks = await everything(sound.store, page=1000)
            assert check(tasks, self.acknowledged, executions=self.executions, all_ended=True) == []
            assert len(tasks) == count
            counts = await sound.counts()
            assert counts["completed"] == count
            assert sum(counts.values()) == count

    async def until_all_ended(self, sound, count):
        async with asyncio.timeout(60):
            while (await sound.counts())["completed"] < count:
                await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("tenure.worker.backoff.LONGEST", 0.2)
    monkeypatch.setattr("tenure.stores.postgres.news.LONGEST_PAUSE", 0.2)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["restarts", "crashes"])
async def test_a_server_that_goes_down_again_and_again_loses_nothing(how, caplog):
    caplog.set_level(logging.WARNING, "tenure.worker")
    with PostgresServer(*SURVIVES_A_CRASH) as server:
        async with connect(server.url) as queue:
            run = Run(queue)
            worker = run.worker()
            working = asyncio.ensure_future(worker.run())
            producing = asyncio.ensure_future(run.produce(60, pause=0.02))
            for ended in (10, 30, 50):
                while len(run.executions) < ended:
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(server.restart, how)
            await producing
            await run.account(server.url, 60)
            # A connection that broke meanwhile is found broken when it is used again.
            while worker.trouble:
                await asyncio.sleep(0.005)
            worker.stop()
            await working
    told = [record.getMessage() for record in caplog.records if record.name == "tenure.worker"]
    states = [
        "away" if "for now, and will keep trying" in line else "back"
        for line in told
        if "for now, and will keep trying" in line or "the store is back" in line
    ]
    # One line for each change, however many calls failed in between.
    assert states
    assert states == ["away", "back"] * (len(states) // 2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 40, 2))
async def test_a_connection_cut_at_any_request_loses_nothing(postgres_url, postgres_server, nth, when):
    async with Proxy(postgres_server.port) as proxy:
        store = PostgresStore(proxy.url)
        queue = Queue(store)
        run = Run(queue)
        await insist(queue.now)
        proxy.cut(nth, when)
        worker = run.worker()
        working = asyncio.ensure_future(worker.run())
        await run.produce(5)
        await run.account(postgres_url, 5)
        worker.stop()
        await working
        assert proxy.cuts == 1
        await store.close()


async def test_too_many_connections_are_waited_for(own_server):
    async with connect(own_server.url) as queue:
        others = [psycopg.connect(own_server.url) for _ in range(29)]
        with pytest.raises(StoreUnavailable, match="the server is at a limit"):
            await connect(own_server.url)
        run = Run(queue)
        worker = run.worker()
        working = asyncio.ensure_future(worker.run())
        await run.produce(3)
        for other in others:
            other.close()
        await run.account(own_server.url, 3)
        worker.stop()
        await working


async def test_a_server_that_only_takes_reads_is_waited_for(own_server):
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        async with connect(own_server.url) as queue:
            _only_reads(admin, "on")
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    await queue.submit("greet")
            with pytest.raises(StoreUnavailable, match="only takes reads"):
                await queue.submit("greet")
            _only_reads(admin, "off")
            run = Run(queue)
            worker = run.worker()
            working = asyncio.ensure_future(worker.run())
            await run.produce(3)
            await run.account(own_server.url, 3)
            worker.stop()
            await working


def _only_reads(admin, switch):
    """As after a failover: connections break, and new ones lead to a server that takes no writes."""
    admin.execute("SET default_transaction_read_only = off")
    admin.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {switch}")
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("statement_timeout", "longer than the server's statement_timeout"),
        ("lock_timeout", "within the server's lock_t"),
    ],
)
async def test_the_servers_own_timeouts_are_waited_out(own_server, setting, words):
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        async with connect(own_server.url) as queue:
            admin.execute(f"ALTER ROLE postgres SET {setting} = '500ms'")
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            await insist(queue.now)
            with admin.transaction():
                admin.execute("LOCK TABLE tenure.tasks")
                with pytest.raises(StoreUnavailable, match=words):
                    await queue.submit("greet")
            assert (await queue.submit("greet")).created


async def test_a_server_that_hangs_is_given_up_after_the_timeout(own_server):
    await (await connect(own_server.url)).close()
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        async with connect(f"{own_server.url}?timeout=1") as queue:
            with admin.transaction():
                admin.execute("LOCK TABLE tenure.tasks")
                with pytest.raises(StoreUnavailable, match="did not answer in time"):
                    await queue.submit("greet")
            assert await insist(lambda: queue.submit("greet"))


async def test_a_claim_whose_rows_somebody_keeps_locked_takes_others(queue, postgres_admin, postgres_url):
    """A lapsed task that cannot be settled must not stop everything else."""
    lapsed = await queue.submit("greet", "lapsed")
    held = await claim_one(queue.store, lease=timedelta(microseconds=1))
    assert held.id == lapsed.id
    other = await queue.submit("greet", "other")
    with psycopg.connect(postgres_url) as keeper:
        keeper.execute("SELECT FROM tenure.tasks WHERE id = %s FOR UPDATE", [lapsed.id])
        assert [task.id for task in await claim(queue.store, 5, by="w2")] == [other.id]
    answer = await claim(queue.store, 5, by="w2")
    assert [task.id for task in answer] == [lapsed.id]


SECRET = "s3cret-word"


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("postgresql://ada:{secret}@no.such.host.invalid/jobs", StoreUnavailable, "is unknown"),
        ("postgresql://ada:{secret}@127.0.0.1:1/jobs", StoreUnavailable, "cannot be reached"),
        ("postgresql://postgres:{secret}@127.0.0.1:{port}/nowhere", StoreUnusable, "Create the database"),
        ("postgresql://nobody:{secret}@127.0.0.1:{port}/postgres", StoreUnusable, "Check the user and the password"),
    ],
)
async def test_an_address_that_leads_nowhere_is_said_without_the_password(postgres_server, url, error, words):
    with pytest.raises(error, match=words) as refusal:
        await connect(url.format(secret=SECRET, port=postgres_server.port))
    assert SECRET not in str(refusal.value)


async def test_a_wrong_password_is_said_without_it(own_server):
    with psycopg.connect(own_server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE ada LOGIN PASSWORD 'right'")
        (file,) = admin.execute("SHOW hba_file").fetchone()
        Path(file).write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        admin.execute("SELECT pg_reload_conf()")
        with pytest.raises(StoreUnusable, match="Check the user and the password") as refusal:
            await connect(f"postgresql://ada:{SECRET}@127.0.0.1:{own_server.port}/postgres")
        assert SECRET not in str(refusal.value)


def test_a_disk_that_is_full_is_said():
    words = explained(asyncpg.DiskFullError("could not extend file"), "db/jobs")
    assert isinstance(words, StoreFull)
    assert "free some space" in str(words)
