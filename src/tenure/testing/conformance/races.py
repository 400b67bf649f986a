"""Rule 38: of two that want different things at once, exactly one wins, and the other is told why not."""

import asyncio

import pytest

from tenure.errors import CannotCancel, CannotExpire, CannotRetry, LeaseLost, TransitionRefused
from tenure.queue import Queue
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.checker import check
from tenure.testing.conformance.steps import (
    LATE,
    LEASE,
    brought_to,
    claim,
    complete,
    everything,
    fail,
    read,
    release,
    stop,
)
from tenure.testing.faults import FaultyStore

ROUNDS = 8


async def race(*calls):
    """Start the calls together; answers and errors in their order."""
    return await asyncio.gather(*calls, return_exceptions=True)


async def handles(open_store, clock, seed=0):
    """Two clients whose calls overtake each other, differently for each seed."""
    return [Queue(FaultyStore(await open_store(clock), 2 * seed + number, LATE)) for number in (0, 1)]


both_orders = pytest.mark.parametrize("swapped", [False, True], ids=["one first", "other first"])


async def in_order(swapped, one, other):
    if swapped:
        second, first = await race(other, one)
        return first, second
    return await race(one, other)


@both_orders
async def test_claim_against_expire(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await one.submit("greet")
        claimed, expired = await in_order(swapped, claim(one.store), other.mark_expired(task.id))
        if claimed:
            assert isinstance(expired, CannotExpire)
            assert expired.status == "running"
            assert (await complete(one.store, claimed[0])).status is TaskStatus.Completed
        else:
            assert expired.status is TaskStatus.Expired
            assert await read(one.store, task.id) == expired
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_claim_against_cancel(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await one.submit("greet")
        claimed, cancelled = await in_order(swapped, claim(one.store), other.cancel(task.id))
        if claimed:
            assert (cancelled.status, cancelled.cancel_requested) == (TaskStatus.Running, True)
            await stop(one.store, claimed[0])
        assert (await read(one.store, task.id)).status is TaskStatus.Cancelled
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_cancel_against_complete(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        held = await brought_to(one, "running")
        completed, cancelled = await in_order(swapped, complete(one.store, held, "done"), other.cancel(held.id))
        assert completed.status is TaskStatus.Completed
        if isinstance(cancelled, Exception):
            assert isinstance(cancelled, CannotCancel)
            assert cancelled.status == "completed"
        else:
            assert (cancelled.status, cancelled.cancel_requested) == (TaskStatus.Running, True)
        assert await read(one.store, held.id) == completed
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_stop_against_complete(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        held = await brought_to(one, "running")
        await one.cancel(held.id)
        completed, stopped = await in_order(swapped, complete(one.store, held), stop(other.store, held))
        assert sum(isinstance(answer, LeaseLost) for answer in (completed, stopped)) == 1
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_complete_against_fail(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        held = await brought_to(one, "running")
        completed, failed = await in_order(swapped, complete(one.store, held), fail(other.store, held, permanent=True))
        assert sum(isinstance(answer, LeaseLost) for answer in (completed, failed)) == 1
        (winner,) = [answer for answer in (completed, failed) if not isinstance(answer, Exception)]
        assert await read(one.store, held.id) == winner
    assert check(await everything(one.store), all_ended=True) == []


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_retry_against_retry(open_store, clock, status):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await brought_to(one, status)
        answers = await race(*(queue.retry(task.id) for queue in (one, other) * 5))
        refusals = [answer for answer in answers if isinstance(answer, CannotRetry)]
        (winner,) = [answer for answer in answers if not isinstance(answer, Exception)]
        assert len(refusals) == 9
        assert {refusal.status for refusal in refusals} == {"pending"}
        stored = await read(one.store, task.id)
        assert stored == winner
        assert [event.what for event in stored.history].count("retried") == 1
        await one.mark_expired(task.id)
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_retry_against_archive(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await brought_to(one, "failed")
        retried, archived = await in_order(swapped, one.retry(task.id), other.archive(task.id))
        assert sum(isinstance(answer, TransitionRefused) for answer in (retried, archived)) == 1
        if archived is not None and isinstance(retried, Exception):
            assert (await read(one.store, task.id)).status is TaskStatus.Archived
        else:
            await one.cancel(task.id)


async def test_expire_against_expire(open_store, clock):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await one.submit("greet")
        answers = await race(one.mark_expired(task.id), other.mark_expired(task.id))
        assert sum(isinstance(answer, CannotExpire) for answer in answers) == 1


@both_orders
async def test_claim_against_the_deadline_in_a_sweep(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        task = await one.submit("greet", ttl=1)
        clock.advance(1)
        claimed, swept = await in_order(swapped, claim(one.store), Sweeper(other.store).sweep())
        assert claimed == []
        assert len(swept) <= 1
        expired = await read(one.store, task.id)
        assert (expired.status, expired.version) == (TaskStatus.Expired, 2)


@both_orders
async def test_a_sweep_against_a_claim_recovers_a_lapsed_task_once(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        held = await brought_to(one, "running")
        clock.advance(LEASE)
        claimed, _ = await in_order(swapped, claim(one.store, by="w2"), Sweeper(other.store).sweep())
        claimed = claimed or await claim(one.store, by="w2")
        assert claimed[0].attempts == 1
        assert [event.what for event in claimed[0].history].count("lapsed") == 1
        with pytest.raises(LeaseLost):
            await complete(one.store, held)
        await complete(one.store, claimed[0])
    assert check(await everything(one.store), all_ended=True) == []


@both_orders
async def test_a_late_completion_against_the_claim_that_follows_the_lapse(open_store, clock, swapped):
    one, other = await handles(open_store, clock)
    for _ in range(ROUNDS):
        held = await brought_to(one, "running")
        clock.advance(LEASE)
        completed, claimed = await in_order(swapped, complete(one.store, held), claim(other.store, by="w2"))
        if claimed:
            assert isinstance(completed, LeaseLost)
            completed = await complete(other.store, claimed[0])
        assert await read(one.store, held.id) == completed
    assert check(await everything(one.store), all_ended=True) == []


async def test_fifty_endings_of_one_claim_end_it_once(open_store, clock):
    one, other = await handles(open_store, clock)
    held = await brought_to(one, "running")
    steps = (complete, fail, release)
    await race(*(steps[number % 3]((one, other)[number % 2].store, held) for number in range(50)))
    stored = await read(one.store, held.id)
    assert stored.version == held.version + 1
    assert check([stored]) == []


async def test_fifty_different_operators_on_one_task_leave_a_history_that_adds_up(open_store, clock):
    one, other = await handles(open_store, clock)
    task = await one.submit("greet", max_attempts=3)

    async def work(queue, number):
        for held in await claim(queue.store, by=f"w{number}"):
            await (fail if number % 3 else release)(queue.store, held)

    calls = []
    for number in range(50):
        queue = (one, other)[number % 2]
        calls.append(
            (
                lambda queue, _: queue.cancel(task.id),
                lambda queue, _: queue.retry(task.id),
                work,
                lambda queue, _: queue.retry(task.id, keep_attempts=True),
                work,
            )[number % 5](queue, number)
        )
    answers = await race(*calls)
    assert all(isinstance(answer, TransitionRefused | LeaseLost) for answer in answers if isinstance(answer, Exception))
    assert check([await read(one.store, task.id)]) == []
