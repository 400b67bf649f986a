"""Wake-ups: one message per batch at most, none when nobody listens, and a listener that comes back."""

import asyncio
import itertools

import psycopg
import pytest

from tenure import Worker, connect
from tenure.stores.base import WORKER, Note
from tenure.stores.postgres.news import News

CHANNEL = '"""tenure"".news"'
SOON = 20
"""Seconds that tell "noticed" from "never"."""


@pytest.fixture
def messages(postgres_server, postgres_admin):
    """How many messages were sent since the last look."""
    with psycopg.connect(postgres_server.url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")

        def count():
            # Messages come in the order of their commits, so whatever was sent before is there when this one is.
            postgres_admin.execute("SELECT pg_notify(%s, 'end')", ['"tenure".news'])
            return len(list(itertools.takewhile(lambda message: message.payload != "end", listener.notifies())))

        yield count


async def listening(queue):
    """Wait once, which says to everyone that somebody listens."""
    async with asyncio.timeout(SOON):
        await queue.store.wait(queue.store.mark(), 300)
    return queue.store.mark()


async def listeners(queue):
    ((count,),) = await queue.store._connections.fetch("SELECT count(*) FROM tenure.listeners")
    return count


async def test_nothing_is_sent_while_nobody_listens(queue, messages):
    await queue.submit_many([("greet", number) for number in range(10)])
    await queue.submit("greet", idempotency_key="k")
    await queue.pause("mail")
    assert messages() == 0


async def test_a_batch_sends_one_message(queue, postgres_url, messages):
    async with connect(postgres_url) as other:
        await listening(other)
        await queue.submit_many([("greet", number) for number in range(1000)])
        assert messages() == 1
        await queue.submit_many([("greet", number, {"idempotency_key": f"{number}"}) for number in range(10)])
        assert messages() == 1


async def test_a_repeat_that_writes_nothing_sends_nothing(queue, postgres_url, messages):
    await queue.submit("greet", idempotency_key="k")
    async with connect(postgres_url) as other:
        await listening(other)
        await queue.submit("greet", idempotency_key="k")
        assert messages() == 0


async def test_a_sign_of_life_is_no_news(queue, postgres_url, messages):
    async with connect(postgres_url) as other:
        await listening(other)
        await queue.store.put_note(Note(WORKER, "w1", {"id": "w1"}))
        assert messages() == 0


async def test_a_listener_leaves_when_it_is_closed(queue, postgres_url):
    async with connect(postgres_url) as other:
        await listening(other)
        assert await listeners(queue) == 1
    assert await listeners(queue) == 0


async def test_a_listener_that_has_had_enough_says_so(queue, postgres_url, monkeypatch):
    monkeypatch.setattr("tenure.stores.postgres.news.PATIENCE", 0.0)
    monkeypatch.setattr("tenure.stores.postgres.news.TICK", 0.01)
    async with connect(postgres_url) as other:
        await listening(other)
        async with asyncio.timeout(SOON):
            while await listeners(queue):
                await asyncio.sleep(0.01)
        await listening(other)


async def test_a_listener_that_was_cut_off_comes_back(queue, postgres_url, postgres_admin):
    async with connect(postgres_url) as other:
        await listening(other)
        for _ in range(3):
            cut = postgres_admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%INTO _tenure_.listeners%'"
                " AND pid <> pg_backend_pid() AND state = 'idle'"
            ).fetchall()
            assert cut
            # Coming back ends a wait, because something may have been missed; the next one needs a message.
            mark = await listening(other)
            waiting = asyncio.ensure_future(other.store.wait(mark, 300))
            await asyncio.sleep(0)
            await queue.submit("greet")
            async with asyncio.timeout(SOON):
                await waiting


async def test_a_worker_runs_what_was_submitted_while_it_was_cut_off(queue, postgres_url, postgres_admin):
    ran = asyncio.Queue()
    async with connect(postgres_url) as other:
        worker = Worker(other, poll=300)

        @worker.task("greet")
        async def greet(input: int) -> None:
            await ran.put(input)

        working = asyncio.ensure_future(worker.run())
        for number in range(5):
            await queue.submit("greet", number)
            async with asyncio.timeout(SOON):
                assert await ran.get() == number
            postgres_admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND state = 'idle' AND backend_type = 'client backend'"
                " AND query LIKE '%INTO _tenure_.listeners%'"
            )
        worker.stop()
        await working


async def test_without_news_the_poll_finds_everything(queue, postgres_url, messages):
    ran = asyncio.Queue()
    async with connect(f"{postgres_url}?poll_only=true") as other:
        worker = Worker(other)

        @worker.task("greet")
        async def greet(input: int) -> None:
            await ran.put(input)

        working = asyncio.ensure_future(worker.run())
        for number in range(3):
            await queue.submit("greet", number)
            async with asyncio.timeout(SOON):
                assert await ran.get() == number
        worker.stop()
        await working
        assert await listeners(queue) == 0
        assert messages() == 0


async def test_a_poll_looks_often_while_things_happen_and_seldom_when_nothing_does(queue, monkeypatch):
    news = News(queue.store.address._replace(poll_only=True), queue.store._statements)
    assert news._patience() == pytest.approx(0.02)
    news._last_news -= 4
    assert news._patience() == pytest.approx(0.2, abs=0.01)
    news._last_news -= 1000
    assert news._patience() == 0.5
