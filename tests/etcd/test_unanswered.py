"""A request that was not answered is looked up, never guessed at."""

import asyncio
import time

import pytest
from network import Way

from tenure import lifecycle
from tenure.errors import StoreFull, StoreUnavailable
from tenure.queue import Queue
from tenure.stores.etcd import EtcdStore
from tenure.stores.etcd.client import Patience, Unanswered
from tenure.testing.conformance.steps import change, claim, claim_one, complete, everything, ids, read


@pytest.fixture
def way(etcd_server):
    with Way(etcd_server.members[0].port) as way:
        yield way


@pytest.fixture
async def far(way, etcd_url, clock):
    """The same store, by a way that can be cut."""
    prefix = etcd_url.partition("127.0.0.1:")[2].partition("/")[2]
    store = EtcdStore(f"etcd://127.0.0.1:{way.port}/{prefix}?timeout=3", clock)
    yield store
    await store.close()


@pytest.fixture
async def patient(etcd_url, clock):
    """The same store, that loses no answer because this process stands still."""
    store = EtcdStore(f"{etcd_url}?timeout=300", clock)
    yield store
    await store.close()


def lose_the_next_answer(way, far):
    """From the next change on, everything gets to the server and nothing gets back."""
    tell = far._client.tell

    async def tell_once(path, request):
        if request.compare:
            far._client.tell = tell
            way.mute()
        return await tell(path, request)

    far._client.tell = tell_once


async def submit(queue, store):
    return lambda: queue.submit("greet", 1)


async def take(queue, store):
    await queue.submit("greet", 1)
    return lambda: claim_one(store, by="far")


async def end(queue, store):
    await queue.submit("greet", 1)
    held = await claim_one(store)
    return lambda: complete(store, held, "once")


async def note(queue, store):
    return lambda: queue.pause("mail")


async def look(queue, store):
    return lambda: queue.get("nobody")


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("what", [submit, take, end, note])
async def test_a_change_that_was_told_to_be_one_too_many_counts_if_it_was_made(store, far, what, made):
    """A server whose quota is used up refuses changes; those that found room when they came it makes, and says the same."""
    call = await what(Queue(far), far)
    before = await everything(store)
    tell = far._client.tell

    async def full(path, request):
        if not request.compare:
            return await tell(path, request)
        far._client.tell = tell
        if made:
            await tell(path, request)
        raise StoreFull("no space")

    far._client.tell = full
    if made:
        await call()
        assert await everything(store) != before or what is note
    else:
        with pytest.raises(StoreFull):
            await call()
        assert await everything(store) == before
        await call()
    assert sum(lane.count for lane in await store.count()) == len(await everything(store)) == (what is not note)


@pytest.mark.parametrize("made", [True, False])
async def test_a_change_without_an_answer_on_a_server_that_is_full_is_found_or_stays_in_doubt(store, far, made):
    queue = Queue(far)
    await queue.submit("greet", 1)
    tell = far._client.tell

    async def full(path, request):
        if request.compare:
            raise StoreFull("no space")
        return await tell(path, request)

    async def lost(path, request):
        if not request.compare:
            return await tell(path, request)
        far._client.tell = full
        if made:
            await tell(path, request)
        raise Unanswered("lost")

    far._client.tell = lost
    if made:
        assert (await queue.submit("greet", 2)).created is True
    else:
        with pytest.raises(Unanswered):
            await queue.submit("greet", 2)
    far._client.tell = tell
    assert [task.input for task in await everything(store)] == [2, 1][not made :]
    assert sum(lane.count for lane in await store.count()) == 1 + made


@pytest.mark.parametrize("what", [submit, take, end, note])
async def test_a_change_whose_answer_was_lost_is_found_to_have_been_made_and_is_not_made_twice(store, far, way, what):
    queue = Queue(far)
    call = await what(queue, far)
    await far.get(["nobody"])
    before = int((await store.about())["revision"])
    lose_the_next_answer(way, far)
    calling = asyncio.ensure_future(call())
    async with asyncio.timeout(20):
        while int((await store.about())["revision"]) == before:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(way.heal)
        answer = await calling
    tasks = await everything(store)
    assert len(tasks) == (what is not note)
    if what is not note:
        assert answer.id == tasks[0].id
        assert (answer.version, answer.created) == (tasks[0].version, True)
    counts = await store.count()
    assert sum(lane.count for lane in counts) == len(tasks)


async def test_a_change_that_never_arrived_is_made_after_all(store, far, way):
    queue = Queue(far)
    await queue.submit("greet", 1)
    way.cut()
    calling = asyncio.ensure_future(queue.submit("greet", 2))
    async with asyncio.timeout(20):
        while not calling.done() and far._client.member < 2:
            await asyncio.sleep(0.01)
        way.heal()
        second = await calling
    assert second.created is True
    assert [task.input for task in await everything(store)] == [2, 1]


@pytest.mark.parametrize("what", [submit, take, end, note, look])
async def test_a_process_that_stood_still_while_it_waited_asks_once_more(store, far, what, monkeypatch):
    """Its time is over when it goes on, and nothing is wrong with the server."""
    call = await what(Queue(far), far)
    await far.get(["nobody"])
    once = far._client._once

    async def stand_still(path, request):
        far._client._once = once
        monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + 3600)
        raise Unanswered("Its deadline passed while we stood still.")

    far._client._once = stand_still
    await call()
    assert len(await everything(store)) == (what not in (note, look))


async def test_when_nobody_answers_in_time_the_error_says_so_and_the_request_can_be_made_again(store, far, way):
    queue = Queue(far)
    await queue.submit("greet", task_id="one")
    way.cut()
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{way.port}"):
        await queue.submit("greet", task_id="two")
    way.heal()
    again = await queue.submit("greet", task_id="two")
    assert again.status == "pending"
    assert sorted(ids(await everything(store))) == ["one", "two"]
    assert sum(lane.count for lane in await store.count()) == 2


async def test_a_transaction_that_was_given_up_cannot_take_place_later(store, clock):
    """The slot has been written over: whatever still waits on the way finds another revision there."""
    queue = Queue(store)
    await queue.submit("greet")
    writer = store._db.writer
    slot = writer._free[-1]
    expected = slot.revision
    assert await writer._resolve(slot, "the number of a lost transaction", Patience(3), Unanswered("lost")) is None
    assert slot.revision > expected
    assert (await queue.submit("greet")).created is True
    assert sum(lane.count for lane in await store.count()) == 2


async def test_slots_of_a_closed_handle_are_added_up_and_counts_stay_right(open_store, clock):
    first, second = open_store(clock), open_store(clock)
    await asyncio.gather(*(Queue(first).submit("greet", number) for number in range(5)))
    held = await claim_one(second)
    before = await second.count()
    await first.close()
    assert await second.count() == before
    await complete(second, held)
    assert {(lane.status, lane.count) for lane in await second.count()} == {("pending", 4), ("completed", 1)}
    assert len(await _slots(second)) == 2, "the total and the slot of the open handle"


async def test_slots_of_a_handle_that_died_are_added_up_when_it_is_silent_for_long(open_store, clock):
    dead, alive = open_store(clock), open_store(clock)
    await Queue(dead).submit("greet")
    clock.advance(3600)
    await alive.prune({}, clock(), 10)
    assert [key.rpartition(b"/")[2] for key in await _slots(alive)][-1] == b"total"
    await Queue(dead).submit("greet", "it was only asleep")
    assert sum(lane.count for lane in await alive.count()) == 2


async def _slots(store):
    from tenure.stores.etcd.layout import after
    from tenure.stores.etcd.requests import walk

    folder = store._db.layout.folder(b"count")
    (found,) = await store._db.read([walk(folder, after(folder))])
    return [kv.key for kv in found]


async def test_endpoints_that_are_away_are_passed_over(etcd_server, clock):
    from tenure.testing.ports import free_port

    away = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    store = EtcdStore(f"etcd://{away},{etcd_server.members[0].endpoint}/failover", clock)
    task = await Queue(store).submit("greet")
    assert (await read(store, task.id)).status == "pending"
    await store.close()


@pytest.mark.parametrize("together", range(1, 7))
async def test_requests_that_fail_together_do_not_pass_over_a_member_that_is_there(etcd_server, clock, together):
    from tenure.testing.ports import free_port

    dead, alive = f"127.0.0.1:{free_port()}", etcd_server.members[0].endpoint
    store = EtcdStore(f"etcd://{dead},{alive},{dead}/together?timeout=3", clock)
    answers = await asyncio.gather(*(store.get(["nobody"]) for _ in range(together)))
    assert answers == [[None]] * together
    assert store._client.endpoint == alive
    await store.close()


async def lapses(store, clock):
    clock.advance(100)
    (task,) = await everything(store)
    await change(store, task.id, lifecycle.lapse)


async def is_taken_by_another(store, clock):
    clock.advance(100)
    return await claim_one(store, by="faster")


async def is_done_by_another(store, clock):
    await complete(store, await is_taken_by_another(store, clock), "done")


async def is_asked_to_stop_with_another(store, clock):
    task = await is_taken_by_another(store, clock)
    await Queue(store).cancel(task.id)


@pytest.mark.parametrize("befalls", [lapses, is_taken_by_another, is_done_by_another, is_asked_to_stop_with_another])
async def test_a_claim_whose_answer_comes_after_its_lease_takes_nothing_from_others(store, patient, clock, befalls):
    """The tasks are sound, and what became of them meanwhile stands."""
    task = await Queue(store).submit("greet", 1)
    tell = patient._client.tell
    became = []

    async def late(path, request):
        if not request.compare:
            return await tell(path, request)
        patient._client.tell = tell
        await tell(path, request)
        await befalls(store, clock)
        became.extend(await everything(store))
        raise Unanswered("late")

    patient._client.tell = late
    taken = await claim(patient, 5, by="far")
    (now,) = await everything(store)
    assert await store.notes("damaged") == []
    if befalls is lapses:
        assert [(each.id, each.worker_id, each.attempts) for each in taken] == [(task.id, "far", 1)]
        assert now == taken[0]
    else:
        assert taken == []
        assert [now] == became
    assert sum(lane.count for lane in await store.count()) == 1


async def test_a_claim_whose_answer_comes_after_somebody_asked_it_to_stop_is_still_a_claim(store, patient):
    task = await Queue(store).submit("greet", 1)
    tell = patient._client.tell

    async def late(path, request):
        if not request.compare:
            return await tell(path, request)
        patient._client.tell = tell
        await tell(path, request)
        await Queue(store).cancel(task.id)
        raise Unanswered("late")

    patient._client.tell = late
    taken = await claim_one(patient, by="far")
    assert (taken.id, taken.worker_id, taken.cancel_requested) == (task.id, "far", True)
