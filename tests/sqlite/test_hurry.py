"""The interpreter's switch interval is short while a thread of the store is away, and as it was before and after."""

import asyncio
import os
import sqlite3
import sys
import threading
from types import SimpleNamespace

import pytest

from tenure import connect
from tenure.stores.sqlite import hurry
from tenure.stores.sqlite.connection import open_connection
from tenure.stores.sqlite.threads import ConnectionThread, _Call


@pytest.fixture
def usual():
    """What was set before, and nobody else of this process away."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield sys.getswitchinterval()
    sys.setswitchinterval(interval)


def test_while_a_statement_runs_and_no_longer(usual, tmp_path):
    connection = open_connection(tmp_path / "jobs.db")
    connection.create_function("interval", 0, sys.getswitchinterval)
    assert connection.execute("SELECT interval()").fetchone() == (hurry.SHORT,)
    assert sys.getswitchinterval() == usual
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        connection.execute("SELECT * FROM nowhere")
    assert sys.getswitchinterval() == usual
    connection.close()


async def test_while_a_call_waits_for_the_thread_that_serves_it(usual, tmp_path):
    thread, go, begun = ConnectionThread(tmp_path / "jobs.db", "reader"), threading.Event(), threading.Event()

    def hold(db):
        begun.set()
        go.wait(60)
        return sys.getswitchinterval()

    first = thread.call(hold)
    await asyncio.to_thread(begun.wait, 60)
    assert sys.getswitchinterval() == usual
    second = thread.call(lambda db: sys.getswitchinterval())
    assert sys.getswitchinterval() == hurry.SHORT
    go.set()
    assert await first == hurry.SHORT
    assert await second == usual
    thread.close()


async def test_no_longer_than_that_for_a_call_that_joins_a_group(usual, tmp_path):
    """It is handed in after the thread has arrived for the one before it, and nobody is called for it once more."""
    thread = ConnectionThread(tmp_path / "jobs.db", "reader")
    joins = _Call(lambda db: "joined")

    class Calls(SimpleNamespace):
        def get_nowait(self):
            hurry.leave(thread)
            thread._calls = real
            return joins

    real = thread._calls
    # The thread may be about to wait for its first call only now.
    thread._calls = Calls(put=real.put, get=real.get)
    assert await thread.call(lambda db: "first") == "first"
    assert await joins.answer == "joined"
    assert sys.getswitchinterval() == usual
    thread.close()


async def test_what_others_have_set_meanwhile_stays(usual, tmp_path):
    async with connect(f"sqlite:///{tmp_path}/jobs.db") as queue:
        await queue.submit("greet")
        hurry.leave("somebody")
        sys.setswitchinterval(0.01)
        hurry.arrive("somebody")
        assert sys.getswitchinterval() == pytest.approx(0.01)
        for chosen in (0.0001, 0.001):
            sys.setswitchinterval(chosen)
            await queue.submit("greet")
            assert sys.getswitchinterval() == pytest.approx(chosen)


def test_the_last_one_who_arrives_makes_it_usual_again(usual):
    hurry.leave("first")
    hurry.leave("second")
    hurry.arrive("first")
    assert sys.getswitchinterval() == hurry.SHORT
    hurry.arrive("second")
    assert sys.getswitchinterval() == usual


def test_a_forked_child_begins_with_the_usual_one(usual):
    hurry.leave("somebody who is not in the child")
    child = os.fork()
    if not child:
        os._exit(sys.getswitchinterval() != usual)
    _, status = os.waitpid(child, 0)
    hurry.arrive("somebody who is not in the child")
    assert os.waitstatus_to_exitcode(status) == 0
