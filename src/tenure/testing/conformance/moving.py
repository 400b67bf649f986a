"""Forgetting a task on request, and moving everything from one store to another."""

import asyncio

import msgspec
import pytest

from tenure.errors import InvalidInput
from tenure.queue import Queue
from tenure.stores.base import Piece
from tenure.stores.memory import MemoryStore
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    alike,
    brought_to,
    claim,
    claim_one,
    everything,
    ids,
    read,
    renew,
)


async def dumped(store, limit=3):
    """Everything a store keeps, by way of all its pieces."""
    pieces = [await store.dump(limit=limit)]
    while (cursor := pieces[-1].cursor) is not None:
        pieces.append(await store.dump(cursor, limit))
    return pieces


async def a_bit_of_everything(queue, clock):
    for status in TaskStatus:
        await brought_to(queue, status, status.value, priority=3, tags=["x"])
    await brought_to(queue, "completed", "pruned", task_id="pruned", idempotency_key="pruned")
    await queue.store.prune({TaskStatus.Completed: clock()}, clock(), 100)
    await queue.submit_many([("greet", number) for number in range(3)], ordering_key="k")
    await queue.submit("greet", {"keyed": True}, idempotency_key="key")
    await queue.submit("greet", slot=("daily", "2026-01-28"), delay=60, ttl=600)


async def test_an_ended_task_can_be_forgotten_and_leaves_its_stone(queue, store, clock):
    done = await brought_to(queue, "completed", task_id="mine")
    plain = await brought_to(queue, "failed")
    assert await store.forget([done, plain], clock()) == [True, True]
    assert await everything(store) == []
    assert await store.count() == []
    assert (await queue.submit("greet", task_id="mine")).created is False


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_an_open_task_is_never_forgotten(queue, store, clock, status):
    task = await brought_to(queue, status)
    assert await store.forget([task], clock()) == [False]
    assert await read(store, task.id) == task


async def test_only_the_version_that_was_seen_is_forgotten(queue, store, clock):
    failed = await brought_to(queue, "failed")
    await queue.retry(failed.id)
    cancelled = await queue.cancel(failed.id)
    assert await store.forget([failed], clock()) == [False]
    assert await read(store, failed.id) == cancelled


@pytest.mark.parametrize("limit", [1, 3, 500])
async def test_all_pieces_together_are_everything_in_submit_order(queue, store, clock, limit):
    await a_bit_of_everything(queue, clock)
    pieces = await dumped(store, limit)
    tasks = [task for piece in pieces for task in piece.tasks]
    assert tasks == list(reversed(await everything(store)))
    assert [stone.id for piece in pieces for stone in piece.stones] == ["pruned"]
    records = {record.key: record for piece in pieces for record in piece.reservations}
    assert set(records) == {"pruned", "key", "daily#2026-01-28"}
    assert all(len(piece.tasks) + len(piece.stones) + len(piece.reservations) <= limit for piece in pieces)


async def test_an_empty_store_gives_nothing_out(store):
    for piece in await dumped(store):
        assert (piece.tasks, piece.stones, piece.reservations, piece.damaged) == ([], [], [], [])


async def test_a_cursor_that_no_piece_gave_is_refused(store):
    with pytest.raises(InvalidInput, match="cursor"):
        await store.dump("nonsense")


async def test_a_dump_shows_leases_as_they_are(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(10)
    await renew(store, held)
    (task,) = (await store.dump()).tasks
    assert task == await read(store, held.id)


@pytest.mark.parametrize("direction", ["into", "out of"])
async def test_a_restored_store_goes_on_as_the_first_one_would(store, clock, direction):
    source, target = (MemoryStore(clock), store) if direction == "into" else (store, MemoryStore(clock))
    await a_bit_of_everything(Queue(source), clock)
    for piece in await dumped(source):
        assert await target.restore(piece, clock()) == Piece()
    assert await everything(target) == await everything(source)
    assert await target.count() == await source.count()
    moved = Queue(target)
    assert ids((await moved.list(tag="x")).tasks) == ids((await Queue(source).list(tag="x")).tasks)
    assert (await moved.submit("greet", {"keyed": True}, idempotency_key="key")).created is False
    assert (await moved.submit("greet", slot=("daily", "2026-01-28"))).created is False
    assert (await moved.submit("greet", task_id="pruned")).created is False
    clock.advance(30)
    types = ["greet", "pending", "running"]
    here, there = [await claim(each, 10, types=types) for each in (source, target)]
    assert [alike(task) for task in here] == [alike(task) for task in there]
    assert [task.input for task in here if task.ordering_key] == [0]


async def test_what_stands_there_already_is_left_and_told(queue, store, clock):
    there = await queue.submit("greet", 1, task_id="same", idempotency_key="key")
    other = MemoryStore(clock)
    await Queue(other).submit("greet", 2, task_id="same", idempotency_key="key")
    await Queue(other).submit("greet", 3, task_id="new")
    answer = await store.restore(await other.dump(), clock())
    assert answer.tasks == [there]
    assert [record.task_id for record in answer.reservations] == ["same"]
    assert sorted(task.input for task in await everything(store)) == [1, 3]
    assert (await queue.submit("greet", 1, idempotency_key="key")).created is False


async def test_restoring_twice_changes_nothing(queue, store, clock):
    await a_bit_of_everything(queue, clock)
    pieces = await dumped(store)
    before = await everything(store)
    for piece in pieces:
        await store.restore(piece, clock())
    assert await everything(store) == before
    assert await dumped(store) == pieces


async def test_the_claim_of_a_moved_task_is_still_held(store, clock):
    source = MemoryStore(clock)
    held = await brought_to(Queue(source), "running")
    await store.restore(await source.dump(), clock())
    assert await claim(store, by="w2") == []
    clock.set(held.lease_expires_at)
    assert (await claim_one(store, by="w2")).fence > held.fence


async def test_a_stone_keeps_a_pruned_task_from_coming_back(queue, store, clock):
    task = await queue.submit("greet", 1, idempotency_key="key")
    (before,) = [piece for piece in await dumped(store) if piece.tasks]
    await queue.cancel(task.id)
    await queue.purge(task.id)
    assert ids((await store.restore(before, clock())).tasks) == [task.id]
    assert await queue.get(task.id) is None


async def test_an_outdated_reservation_gives_way_to_a_restored_one(queue, store, clock):
    other = Queue(MemoryStore(clock))
    theirs = await other.submit("greet", 1, idempotency_key="key")
    await queue.submit("greet", 1, idempotency_key="key", idempotency_ttl=10)
    clock.advance(10)
    for piece in await dumped(other.store):
        assert (await store.restore(piece, clock())).reservations == []
    assert (await queue.submit("greet", 1, idempotency_key="key")).id == theirs.id


async def test_of_many_that_put_in_one_record_at_once_one_succeeds_and_the_others_are_told_of_it(
    open_store, clock, queue
):
    stores = [await open_store(clock) for _ in range(4)]
    other = Queue(MemoryStore(clock))
    stones, reservations = [], []
    for number in range(20):
        task = await other.submit("greet", 1, idempotency_key="key")
        stones.append(msgspec.structs.replace(task, id="same", type=f"racer-{number}", status=TaskStatus.Cancelled))
        reservations += (await dumped(other.store, 500))[0].reservations
        other = Queue(MemoryStore(clock))
    answers = await asyncio.gather(
        *(
            stores[number % 4].restore(Piece(stones=[stones[number]], reservations=[reservations[number]]), clock())
            for number in range(20)
        )
    )
    told = [answer.stones[0].type for answer in answers if answer.stones]
    assert (len(told), len(set(told))) == (19, 1)
    owners = [answer.reservations[0].task_id for answer in answers if answer.reservations]
    assert (len(owners), len(set(owners))) == (19, 1)
    assert (await queue.submit("greet", task_id="same")).type == told[0]


async def test_an_id_becomes_a_stone_or_a_task_but_never_both(open_store, clock):
    one, two = Queue(await open_store(clock)), await open_store(clock)
    for number in range(10):
        stone = await Queue(MemoryStore(clock)).submit("stone", task_id=f"id-{number}")
        stone = msgspec.structs.replace(stone, status=TaskStatus.Cancelled)
        task, answer = await asyncio.gather(
            one.submit("greet", task_id=stone.id), two.restore(Piece(stones=[stone]), clock())
        )
        assert task.created is bool(answer.stones), "both were put in, or none"
        assert (await one.get(stone.id) is None) is not task.created
