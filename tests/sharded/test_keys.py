"""Rules 8 and 11 to 17 where a key, a chosen id and an ordering key lead to different shards."""

import asyncio
import contextlib
import itertools
from datetime import timedelta

import msgspec
import pytest
from shard_steps import counted, in_memory, key_in, text_in

from tenure.errors import IdempotencyConflict
from tenure.queue import Queue
from tenure.stores.base import Piece
from tenure.stores.memory import MemoryStore
from tenure.stores.sharded import ShardedStore
from tenure.submission import build
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import brought_to, claim, claim_one, complete, everything, ids
from tenure.testing.faults import Fault, FaultyStore


@pytest.fixture
async def queue(clock):
    return await in_memory(3, clock)


@pytest.fixture
def words(queue):
    """A key that is kept by shard 0, an id that leads to shard 1, an ordering key that belongs to shard 2."""
    store = queue.store
    return {"idempotency_key": key_in(store, 0), "task_id": text_in(store, 1, "id"), "ordering_key": text_in(store, 2)}


def some_of(words, names):
    return {name: words[name] for name in names}


MIXES = [
    ("idempotency_key", "ordering_key"),
    ("idempotency_key", "task_id"),
    ("task_id", "ordering_key"),
    ("idempotency_key", "task_id", "ordering_key"),
]
BY_KEY = [mix for mix in MIXES if "idempotency_key" in mix]
BY_ID = [mix for mix in MIXES if "task_id" in mix]


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
async def test_a_task_is_kept_where_its_ordering_key_or_else_its_id_leads(queue, words, mix):
    task = await queue.submit("greet", 1, **some_of(words, mix))
    assert task.created
    assert await counted(queue.store) == ([0, 0, 1] if "ordering_key" in mix else [0, 1, 0])
    assert await queue.get(task.id) == task
    held = await claim_one(queue.store)
    assert (await complete(queue.store, held)).status is TaskStatus.Completed


@pytest.mark.parametrize("again", BY_KEY, ids="+".join)
@pytest.mark.parametrize("first", [("idempotency_key",), *BY_KEY], ids="+".join)
async def test_a_key_is_recognised_with_whatever_else_it_is_given(queue, words, first, again):
    task = await queue.submit("greet", 1, **some_of(words, first))
    repeat = await queue.submit("greet", 1, **some_of(words, again))
    alone = await queue.submit("greet", 1, **some_of(words, ["idempotency_key"]))
    assert (repeat.id, repeat.created, alone.id, alone.created) == (task.id, False, task.id, False)
    assert repeat == msgspec.structs.replace(task, created=False)
    with pytest.raises(IdempotencyConflict) as conflict:
        await queue.submit("greet", 2, **some_of(words, again))
    assert conflict.value.task_id == task.id
    assert len(await everything(queue.store)) == 1


@pytest.mark.parametrize("again", [("task_id",), *BY_ID], ids="+".join)
@pytest.mark.parametrize("first", [("task_id",), *BY_ID], ids="+".join)
async def test_a_chosen_id_is_recognised_with_whatever_else_it_is_given(queue, words, first, again):
    task = await queue.submit("greet", 1, **some_of(words, first))
    other = {**some_of(words, again), "ordering_key": text_in(queue.store, 0)} if len(again) > 1 else {}
    for options in (some_of(words, again), other or some_of(words, again)):
        repeat = await queue.submit("greet", 1, **options)
        assert repeat == msgspec.structs.replace(task, created=False)
    assert len(await everything(queue.store)) == 1


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
async def test_one_hundred_producers_at_once_make_one_task(clock, words, mix):
    stores = [MemoryStore(clock) for _ in range(3)]
    queues = [Queue(ShardedStore.of([FaultyStore(store, seed, LATE) for store in stores])) for seed in range(5)]
    for queue in queues:
        await queue.store.open()
    chosen = some_of(words, mix)
    name = "idempotency_key" if "idempotency_key" in mix else "task_id"
    # Some of them say only what decides whether the task is new.
    calls = [chosen, chosen, {name: chosen[name]}]
    tasks = await asyncio.gather(*(queues[number % 5].submit("greet", 1, **calls[number % 3]) for number in range(100)))
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) == 1
    assert ids(await everything(queues[0].store)) == [tasks[0].id]


LATE = [Fault("*", "delay", probability=0.5)]
STEPS = list(itertools.product(["before", "after"], ["insert", "restore"], [1, 2, 3]))


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
@pytest.mark.parametrize(("kind", "method", "nth"), STEPS)
async def test_whatever_step_of_a_submit_is_lost_the_next_producer_finishes_it_as_one_task(
    clock, words, mix, kind, method, nth
):
    stores = [MemoryStore(clock) for _ in range(3)]
    sound = ShardedStore.of(stores)
    await sound.open()
    calls = itertools.count(1)

    class Breaking(FaultyStore):
        """The nth such call of all shards is lost, and all calls after it: the producer has died."""

        async def _call(self, name, call):
            number = next(calls) if name == method else 0
            if number > nth or (number == nth and kind == "before"):
                raise DeadProducer
            answer = await call()
            if number == nth:
                raise DeadProducer
            return answer

    dying = ShardedStore.of([Breaking(store) for store in stores])
    await dying.open()
    submission = build("greet", 1, some_of(words, mix), clock(), 1000)
    with contextlib.suppress(DeadProducer):
        await dying.insert([submission])
    decides = "idempotency_key" if "idempotency_key" in mix else "task_id"
    first = await Queue(sound).submit("greet", 1, **some_of(words, mix))
    again = await Queue(sound).submit("greet", 1, **{decides: words[decides]})
    assert again.id == first.id
    assert ids(await everything(sound)) == [first.id]
    assert (await sound.get([first.id]))[0].id == first.id


class DeadProducer(Exception):
    """Nothing that it began is finished by it."""


@pytest.mark.parametrize("mix", BY_KEY, ids="+".join)
async def test_a_key_is_free_again_when_its_time_is_over(queue, clock, words, mix):
    first = await queue.submit("greet", 1, **some_of(words, mix), idempotency_ttl=10)
    clock.advance(10)
    second = await queue.submit("greet", 2, **{**some_of(words, mix), "task_id": None}, idempotency_ttl=10)
    assert second.created
    assert second.id != first.id


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
async def test_a_pruned_task_is_still_known(queue, clock, words, mix):
    done = await brought_to(queue, "completed", **some_of(words, mix))
    clock.advance(10)
    assert await queue.store.prune({TaskStatus.Completed: clock()}, clock(), 10) == 1
    again = await queue.submit("greet", {"for": "completed"}, **some_of(words, mix))
    assert (again.id, again.created, again.status) == (done.id, False, TaskStatus.Completed)
    assert await everything(queue.store) == []


@pytest.mark.parametrize("again", [{}, {"ordering_key": 0}, {"ordering_key": 1}, {"ordering_key": 2}], ids=str)
@pytest.mark.parametrize("first", BY_ID, ids="+".join)
async def test_a_chosen_id_is_recognised_for_as_long_as_its_task_is_there(queue, clock, words, first, again):
    task = await queue.submit("greet", 1, **some_of(words, first), delay=timedelta(days=365))
    clock.advance(timedelta(days=100))
    await queue.store.prune({}, clock(), 100)
    options = {name: text_in(queue.store, shard, "other") for name, shard in again.items()}
    for _ in range(2):
        repeat = await queue.submit("greet", 1, task_id=task.id, **options)
        assert repeat == msgspec.structs.replace(task, created=False)
    assert len(await everything(queue.store)) == 1


async def tied_to_an_older_task(queue, clock, words, place):
    """A task that waits for a year, and a key for ever that was tied to it twenty days later."""
    task = await queue.submit("greet", 1, **some_of(words, ["task_id", "ordering_key"]), delay=timedelta(days=365))
    key = {"idempotency_key": key_in(queue.store, place), "idempotency_ttl": None}
    clock.advance(timedelta(days=20))
    tied = await queue.submit("greet", 1, task_id=task.id, **key)
    assert tied == msgspec.structs.replace(task, created=False)
    clock.advance(timedelta(days=80))
    await queue.store.prune({}, clock(), 100)
    return tied, key


@pytest.mark.parametrize("place", [0, 2])
async def test_a_key_finds_its_task_although_the_shard_of_the_id_has_forgotten_where_it_is(queue, clock, words, place):
    task, key = await tied_to_an_older_task(queue, clock, words, place)
    for options in ({}, {"ordering_key": text_in(queue.store, place, "other")}, {"task_id": "unheard-of"}):
        assert await queue.submit("greet", 1, **key, **options) == task
    late = key_in(queue.store, place, "late")
    assert (await queue.submit("late", 1, task_id=task.id, idempotency_key=late)).id == task.id
    assert len(await everything(queue.store)) == 1


async def test_a_key_in_the_shard_of_the_id_of_an_older_task_is_remembered_no_longer_than_the_id(queue, clock, words):
    task, key = await tied_to_an_older_task(queue, clock, words, place=1)
    assert await queue.submit("greet", 1, task_id=task.id, **key) == task
    new = await queue.submit("greet", 1, **key)
    assert new.created
    assert new.id != task.id
    assert (await queue.submit("greet", 1, **key)).id == new.id
    assert len(await everything(queue.store)) == 2


async def test_a_task_that_is_lost_is_made_again_by_the_next_submit_of_its_key(queue, words):
    chosen = some_of(words, ["idempotency_key", "ordering_key"])
    task = await queue.submit("greet", 1, **chosen)
    lost = queue.store.part_of(task).store
    del lost._tasks[task.id], lost._order[task.id]
    tasks = [await queue.submit("greet", 1, **chosen) for _ in range(3)]
    assert [each.created for each in tasks] == [True, False, False]
    assert len(await everything(queue.store)) == 1


async def test_tasks_of_one_ordering_key_run_one_at_a_time_whatever_ids_and_keys_they_have(queue, words):
    options = [{}, {"task_id": "mine"}, {"idempotency_key": "k"}, {"task_id": "yours", "idempotency_key": "l"}, {}]
    await queue.submit_many([("greet", number, each) for number, each in enumerate(options)], ordering_key="line")
    ran = []
    for _ in options:
        held = await claim_one(queue.store)
        assert await claim(queue.store, 10) == []
        ran.append(held.input)
        await complete(queue.store, held)
    assert ran == [0, 1, 2, 3, 4]


async def test_pointers_are_no_part_of_what_a_queue_keeps(queue, words):
    await queue.submit("greet", 1, **words)
    piece = await queue.store.dump()
    pieces = [piece]
    while (cursor := pieces[-1].cursor) is not None:
        pieces.append(await queue.store.dump(cursor))
    assert sum(len(piece.stones) for piece in pieces) == 0
    assert sum(len(piece.tasks) for piece in pieces) == sum(len(piece.reservations) for piece in pieces) == 1
    assert await queue.store.restore(pieces[0], (await queue.now())) != Piece()


async def test_a_batch_with_a_conflict_in_one_shard_leaves_nothing_in_any(queue):
    taken = key_in(queue.store, 1)
    await queue.submit("greet", 1, idempotency_key=taken)
    batch = [("greet", number, {"idempotency_key": f"new-{number}"}) for number in range(10)]
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many([*batch, ("greet", 2, {"idempotency_key": taken})])
    assert sum(await counted(queue.store)) == 1
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many([*batch, ("greet", 99, {"idempotency_key": "new-3"})])
    assert sum(await counted(queue.store)) == 1
    assert all(task.created for task in await queue.submit_many(batch))
