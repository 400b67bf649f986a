"""The event loop of `tenure worker`."""

import asyncio
import select
import selectors

import pytest

from tenure import punctual
from tenure.punctual import punctual_loop


@pytest.fixture
def sleeps(monkeypatch):
    """How long the loop asked to sleep, each time."""
    asked, usual = [], select.select

    def noted(reads, writes, failures, timeout):
        asked.append(timeout)
        return usual(reads, writes, failures, timeout)

    monkeypatch.setattr(select, "select", noted)
    return asked


def run(main):
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        return runner.run(main)


def test_a_sleep_is_not_rounded_up_to_whole_milliseconds(sleeps):
    run(asyncio.sleep(0.0015))
    assert 0 < max(sleeps) <= 0.0015


def test_what_happens_meanwhile_ends_the_sleep():
    async def answered():
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        loop.call_later(punctual.SHORT / 2, answer.set_result, "late")
        loop.run_in_executor(None, lambda: loop.call_soon_threadsafe(answer.set_result, "at once"))
        try:
            return await answer
        finally:
            loop.set_exception_handler(lambda *_: None)

    assert run(answered()) == "at once"


def test_a_long_sleep_is_left_to_epoll(sleeps):
    async def woken():
        answer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(60, answer.cancel)
        asyncio.get_running_loop().run_in_executor(
            None, answer.get_loop().call_soon_threadsafe, answer.set_result, "done"
        )
        return await answer

    assert run(woken()) == "done"
    assert sleeps == []


def test_it_sleeps_as_usual_where_its_descriptor_is_out_of_reach(sleeps, monkeypatch):
    monkeypatch.setattr(punctual, "REACH", 0)
    run(asyncio.sleep(0.001))
    assert sleeps == []


def test_where_timers_are_exact_it_is_the_usual_loop(monkeypatch):
    monkeypatch.setattr(selectors, "DefaultSelector", selectors.SelectSelector)
    loop = punctual_loop()
    try:
        assert type(loop._selector) is selectors.SelectSelector
    finally:
        loop.close()
