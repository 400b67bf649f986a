"""Group commit: the first call goes at once, what arrives meanwhile rides on the next."""

import asyncio
import gc

import pytest

from tenure.batching import Batcher


class Store:
    """Answers a batch when it is told to, and remembers what it was sent."""

    def __init__(self):
        self.batches: list[list] = []
        self.gates: list[asyncio.Future] = []

    async def send(self, items):
        self.batches.append(items)
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return [f"answer to {item}" for item in items]

    def answer(self, batch: int) -> None:
        self.gates[batch].set_result(None)

    def fail(self, batch: int, error: BaseException) -> None:
        self.gates[batch].set_exception(error)


@pytest.fixture
def store():
    return Store()


async def settled():
    """Let everything run that can run without an answer of the store."""
    for _ in range(10):
        await asyncio.sleep(0)


def calls(batcher, *items):
    return [asyncio.ensure_future(batcher(item)) for item in items]


async def test_a_lone_call_goes_at_once(store):
    (call,) = calls(Batcher(store.send), "a")
    await settled()
    assert store.batches == [["a"]]
    store.answer(0)
    assert await call == "answer to a"


async def test_what_arrives_meanwhile_rides_on_the_next_batch_in_order(store):
    batcher = Batcher(store.send)
    first = calls(batcher, "a")
    await settled()
    rest = calls(batcher, "b", "c", "d")
    await settled()
    assert store.batches == [["a"]]
    store.answer(0)
    await settled()
    assert store.batches == [["a"], ["b", "c", "d"]]
    store.answer(1)
    assert await asyncio.gather(*first, *rest) == [f"answer to {item}" for item in "abcd"]


async def test_nobody_is_answered_before_the_batch_is(store):
    batcher = Batcher(store.send)
    first, second = calls(batcher, "a", "b")
    await settled()
    assert store.batches == [["a", "b"]]
    assert not first.done()
    assert not second.done()
    later = calls(batcher, "c")[0]
    store.answer(0)
    await settled()
    assert first.done()
    assert second.done()
    assert not later.done()
    store.answer(1)
    assert await later == "answer to c"


async def test_a_batch_has_a_limit(store):
    made = calls(Batcher(store.send, limit=2), *"abcde")
    for batch in range(3):
        await settled()
        store.answer(batch)
    await asyncio.gather(*made)
    assert store.batches == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_failing_batch_fails_only_its_members(store):
    batcher = Batcher(store.send)
    failing = calls(batcher, "a", "b")
    await settled()
    fine = calls(batcher, "c")[0]
    store.fail(0, ConnectionError("gone"))
    await settled()
    store.answer(1)
    assert await fine == "answer to c"
    for call in failing:
        with pytest.raises(ConnectionError, match="gone"):
            await call


async def test_after_a_failure_the_next_call_goes_at_once(store):
    batcher = Batcher(store.send)
    (failing,) = calls(batcher, "a")
    await settled()
    store.fail(0, ConnectionError("gone"))
    with pytest.raises(ConnectionError):
        await failing
    (call,) = calls(batcher, "b")
    await settled()
    store.answer(1)
    assert await call == "answer to b"


@pytest.mark.parametrize("outcome", ["answered", "failed"])
async def test_a_caller_that_gives_up_harms_no_other(store, outcome):
    batcher = Batcher(store.send)
    impatient, patient = calls(batcher, "a", "b")
    await settled()
    impatient.cancel()
    await settled()
    if outcome == "answered":
        store.answer(0)
        assert await patient == "answer to b"
    else:
        store.fail(0, ConnectionError("gone"))
        with pytest.raises(ConnectionError):
            await patient
    assert impatient.cancelled()


async def test_a_caller_that_gives_up_while_it_waits_is_sent_all_the_same(store):
    batcher = Batcher(store.send)
    first = calls(batcher, "a")[0]
    await settled()
    impatient, patient = calls(batcher, "b", "c")
    await settled()
    impatient.cancel()
    store.answer(0)
    await settled()
    store.answer(1)
    assert await asyncio.gather(first, patient) == ["answer to a", "answer to c"]
    assert store.batches == [["a"], ["b", "c"]]


async def test_draining_waits_for_all_that_was_handed_in(store):
    batcher = Batcher(store.send)
    made = calls(batcher, "a")
    await settled()
    made += calls(batcher, "b")
    draining = asyncio.ensure_future(batcher.drain())
    await settled()
    store.answer(0)
    await settled()
    assert not draining.done()
    store.answer(1)
    await draining
    await settled()
    assert all(call.done() for call in made)


async def test_draining_when_nothing_waits_returns_at_once(store):
    batcher = Batcher(store.send)
    await batcher.drain()
    (call,) = calls(batcher, "a")
    await settled()
    store.answer(0)
    await call
    await batcher.drain()


async def test_when_the_sender_itself_is_cancelled_its_callers_are_told(store):
    batcher = Batcher(store.send)
    (call,) = calls(batcher, "a")
    await settled()
    (line,) = batcher._lines.values()
    line.sender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    (again,) = calls(batcher, "b")
    await settled()
    store.answer(1)
    assert await again == "answer to b"


async def test_a_store_that_answers_too_little_leaves_no_caller_waiting():
    async def send(items):
        return items[:-1]

    batcher = Batcher(send)
    answers = await asyncio.gather(*(batcher(number) for number in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError] * 3


async def test_each_event_loop_sends_and_answers_its_own():
    """A batch of one loop that is under way holds up nobody in another, and goes on in its own."""
    first, second = Store(), Store()
    stores = {asyncio.get_running_loop(): first}

    async def send(items):
        return await stores[asyncio.get_running_loop()].send(items)

    batcher = Batcher(send)
    (here,) = calls(batcher, "here")
    await settled()

    async def elsewhere():
        stores[asyncio.get_running_loop()] = second
        (there,) = calls(batcher, "there")
        await settled()
        second.answer(0)
        return await asyncio.wait_for(there, 20)

    assert await asyncio.to_thread(asyncio.run, elsewhere()) == "answer to there"
    assert not here.done()
    first.answer(0)
    assert await here == "answer to here"
    assert (first.batches, second.batches) == ([["here"]], [["there"]])


async def test_a_loop_that_has_ended_leaves_nothing_behind():
    async def send(items):
        return items

    batcher = Batcher(send)
    assert await asyncio.to_thread(asyncio.run, batcher("there")) == "there"
    gc.collect()
    assert not list(batcher._lines)


async def test_a_batch_ends_before_the_item_that_is_too_much_for_its_room(store):
    batcher = Batcher(store.send, size=len, room=8)
    made = calls(batcher, "first", "four", "four", "four", "longer than the room", "e")
    for number in range(5):
        await settled()
        store.answer(number)
    await asyncio.gather(*made)
    assert store.batches == [["first"], ["four", "four"], ["four"], ["longer than the room"], ["e"]]
