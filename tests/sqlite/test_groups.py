"""Calls that wait for the writer share a commit, and each is answered as if it had been alone."""

import asyncio
import contextlib
import sqlite3
import threading
from datetime import timedelta

import pytest

from tenure.errors import StoreUnavailable
from tenure.stores.base import Want
from tenure.stores.sqlite import SqliteStore
from tenure.stores.sqlite.threads import WriterThread


@pytest.fixture
async def writer(tmp_path):
    await SqliteStore(tmp_path / "jobs.db").close()
    commits = []
    thread = WriterThread(tmp_path / "jobs.db", "writer-under-test", lambda: commits.append(1))
    thread.commits = commits
    await thread.call(lambda db: db.execute("CREATE TABLE words (word TEXT PRIMARY KEY) STRICT"))
    await others_are_told(thread)
    commits.clear()
    yield thread
    thread.close()


async def others_are_told(writer):
    """Whoever has called is answered first, and the next call is served after that."""
    await writer.call(lambda _: None)


def say(word):
    def work(db):
        db.execute("INSERT INTO words VALUES (?)", (word,))
        return word

    return work


async def words(writer):
    return await writer.call(lambda db: [word for (word,) in db.execute("SELECT word FROM words ORDER BY rowid")])


async def together(writer, *work):
    """Hand in calls while the writer is held up, so that they are one group."""
    busy, free = threading.Event(), threading.Event()
    held_up = writer.call(lambda _: busy.set() or free.wait())
    await asyncio.to_thread(busy.wait)
    answers = [writer.call(each) for each in work]
    free.set()
    await held_up
    return await asyncio.gather(*answers, return_exceptions=True)


async def test_calls_that_wait_share_one_commit(writer):
    assert await together(writer, *(say(f"{number}") for number in range(20))) == [f"{number}" for number in range(20)]
    await others_are_told(writer)
    assert len(writer.commits) == 1


@pytest.mark.parametrize("place", range(7))
async def test_a_call_that_fails_takes_no_other_with_it_and_leaves_nothing(writer, place):
    def fail(db):
        say("half")(db)
        msg = "no"
        raise ValueError(msg)

    calls = [say(f"{number}") for number in range(6)]
    calls.insert(place, fail)
    answers = await together(writer, *calls)
    assert isinstance(answers.pop(place), ValueError)
    assert answers == await words(writer) == [f"{number}" for number in range(6)]


async def test_of_two_calls_that_cannot_both_be_the_first_one_wins(writer):
    first, second = await together(writer, say("same"), say("same"))
    assert first == "same"
    assert isinstance(second, Exception)
    assert await words(writer) == ["same"]


async def test_each_of_many_that_fail_is_told_its_own_reason(writer):
    def fail(number):
        def work(_):
            raise KeyError(number)

        return work

    answers = await together(writer, *(fail(number) for number in range(9)))
    assert [answer.args for answer in answers] == [(number,) for number in range(9)]


async def test_calls_of_several_event_loops_share_a_commit_and_each_hears_in_its_own(writer):
    busy, free = threading.Event(), threading.Event()
    held_up = writer.call(lambda _: busy.set() or free.wait())
    await asyncio.to_thread(busy.wait)

    async def elsewhere():
        return await writer.call(say("elsewhere"))

    other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
    while writer._calls.qsize() < 1:
        await asyncio.sleep(0.001)
    here = writer.call(say("here"))
    free.set()
    await held_up
    assert (await here, await other) == ("here", "elsewhere")
    await others_are_told(writer)
    assert len(writer.commits) == 1


async def test_a_caller_whose_event_loop_is_gone_holds_up_nobody(writer):
    free = threading.Event()
    held_up = writer.call(lambda _: free.wait())

    async def leave():
        writer.call(say("left behind"))

    await asyncio.to_thread(asyncio.run, leave())
    here = writer.call(say("here"))
    free.set()
    await held_up
    assert await here == "here"
    assert await words(writer) == ["left behind", "here"]


async def test_when_the_file_stays_locked_all_are_told_and_nobodys_work_is_run(writer, tmp_path, monkeypatch):
    monkeypatch.setattr("tenure.stores.sqlite.connection.LOCK_PATIENCE", 0.05)
    begun = []
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        calls = [writer.call(lambda _: begun.append(1)) for _ in range(8)]
        told = await asyncio.gather(*calls, return_exceptions=True)
        other.execute("ROLLBACK")
    assert begun == []
    assert {type(error) for error in told} == {StoreUnavailable}


async def test_lazy_calls_that_only_read_need_no_lock_and_tell_nobody(writer, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await asyncio.wait_for(writer.call_lazily(lambda db: db.execute("SELECT 1").fetchone()), 30) == (1,)
        other.execute("ROLLBACK")
    await others_are_told(writer)
    assert writer.commits == []


async def test_a_lazy_call_that_writes_is_committed_like_any_other(writer):
    assert await writer.call_lazily(say("hello")) == "hello"
    await others_are_told(writer)
    assert len(writer.commits) == 1
    assert await words(writer) == ["hello"]


async def test_a_lazy_call_that_was_overtaken_between_reading_and_writing_sees_what_the_others_wrote(writer, tmp_path):
    seen = []

    def add_one(db):
        (count,) = db.execute("SELECT count(*) FROM words").fetchone()
        seen.append(count)
        if len(seen) == 1:
            with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
                other.execute("INSERT INTO words VALUES ('faster')")
        return say(f"word {count}")(db)

    assert await writer.call_lazily(add_one) == "word 1"
    assert seen == [0, 1]
    assert await words(writer) == ["faster", "word 1"]


async def test_a_lazy_call_that_fails_leaves_nothing(writer):
    def fail(db):
        say("half")(db)
        msg = "no"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="no"):
        await writer.call_lazily(fail)
    assert await words(writer) == []


async def test_an_idle_claim_does_not_wait_for_whoever_writes(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        want = Want("w1", ("default",), {"greet": None}, 1, timedelta(seconds=60))
        assert (await asyncio.wait_for(store.claim(want), 30)).tasks == []
        other.execute("ROLLBACK")
    await store.close()
