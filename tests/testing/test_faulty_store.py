"""The store that fails as planned."""

import asyncio
import threading

import pytest

from tenure import InvalidInput, Queue, StoreUnavailable
from tenure.stores.memory import MemoryStore
from tenure.testing import FakeClock, Fault, FaultKind, FaultyStore, Injected


@pytest.fixture
def inner():
    return MemoryStore(FakeClock())


async def outcome(call):
    try:
        await call
    except StoreUnavailable:
        return False
    return True


async def test_without_a_plan_it_is_the_store_it_wraps(inner):
    store = FaultyStore(inner)
    task = await Queue(store).submit("greet", {"name": "Ada"})
    assert await inner.get([task.id]) == [task]
    assert store.injected == []
    assert store.calls == {"now": 1, "insert": 1}


async def test_a_fault_before_the_effect_leaves_nothing(inner):
    store = FaultyStore(inner, plan=[Fault("insert", "before", nth=1)])
    with pytest.raises(StoreUnavailable, match="Call 1 of insert was not made"):
        await Queue(store).submit("greet")
    assert await inner.count() == []
    assert store.injected == [Injected("insert", 1, FaultKind.Before)]


async def test_a_fault_after_the_effect_loses_only_the_answer(inner):
    store = FaultyStore(inner, plan=[Fault("insert", "after", nth=1)])
    with pytest.raises(StoreUnavailable, match="answer to call 1 of insert was lost"):
        await Queue(store).submit("greet")
    assert [lane.count for lane in await inner.count()] == [1]
    assert store.injected == [Injected("insert", 1, FaultKind.After)]


async def test_a_delay_lets_others_go_first(inner):
    store = FaultyStore(inner, plan=[Fault("now", "delay", nth=1)])
    order = []

    async def ask(name):
        await store.now()
        order.append(name)

    await asyncio.gather(ask("late"), ask("in time"))
    assert order == ["in time", "late"]


@pytest.mark.parametrize(
    ("nth", "works"),
    [(2, [True, False, True, True]), (range(2, 4), [True, False, False, True]), ({1, 4}, [False, True, True, False])],
    ids=str,
)
async def test_calls_are_picked_by_their_number(inner, nth, works):
    store = FaultyStore(inner, plan=[Fault("count", "before", nth=nth)])
    assert [await outcome(store.count()) for _ in range(4)] == works


async def test_dice_fall_the_same_for_the_same_seed_and_differently_for_another(inner):
    async def falls(seed, *, with_other_calls=False):
        store = FaultyStore(inner, seed, [Fault("*", "before", probability=0.5)])
        seen = []
        for _ in range(50):
            if with_other_calls:
                await outcome(store.now())
            seen.append(await outcome(store.count()))
        return seen

    first = await falls(1)
    assert 10 < first.count(False) < 40
    assert await falls(1) == first
    assert await falls(1, with_other_calls=True) == first
    assert await falls(2) != first


async def test_healing_ends_all_trouble(inner):
    store = FaultyStore(inner, plan=[Fault("*", "before")])
    assert not await outcome(store.now())
    store.heal()
    assert await outcome(store.now())


@pytest.mark.parametrize(("method", "kind"), [("submit", "before"), ("insert", "sideways"), ("mark", "before")])
def test_a_plan_with_unknown_words_is_refused_with_the_known_ones(method, kind):
    with pytest.raises(InvalidInput, match="Known: "):
        Fault(method, kind)


async def test_a_twin_shares_the_trouble_across_threads(inner):
    class Twins(MemoryStore):
        def twin(self):
            return MemoryStore(self._clock)

    assert FaultyStore(inner).twin().store is inner
    store = FaultyStore(Twins(FakeClock()), plan=[Fault("now", "before", nth=2)])
    twin = store.twin()
    assert twin is not store
    assert await outcome(store.now())
    worked = []
    thread = threading.Thread(target=lambda: worked.append(asyncio.run(outcome(twin.now()))))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert worked == [False]
    assert store.injected == twin.injected == [Injected("now", 2, FaultKind.Before)]
