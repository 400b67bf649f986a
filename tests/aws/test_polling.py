"""Looking for what others wrote: often while things happen, seldom when nothing does."""

import asyncio

from tenure.stores.polling import Poll


def test_pauses_grow_while_nothing_happens_and_shrink_when_something_does():
    now = [0.0]
    poll = Poll(first=0.05, longest=5.0, monotonic=lambda: now[0])
    assert poll.pause() == 0.05
    now[0] = 10.0
    assert poll.pause() == 1.0
    now[0] = 1000.0
    assert poll.pause() == 5.0
    poll.noticed()
    assert poll.pause() == 0.05


async def test_ones_own_write_ends_the_wait_at_once():
    now = [0.0]
    poll = Poll(longest=300.0, monotonic=lambda: now[0])
    now[0] = 10_000.0
    waiting = asyncio.ensure_future(poll.wait(poll.count, 300))
    await asyncio.sleep(0)
    poll.written()
    async with asyncio.timeout(20):
        await waiting


async def test_a_write_since_the_mark_is_not_waited_for():
    poll = Poll(longest=300.0)
    mark = poll.count
    poll.written()
    async with asyncio.timeout(20):
        await poll.wait(mark, 300)
