"""Rule 4: what happens a microsecond before a boundary, exactly on it, and a microsecond after."""

import pytest

from tenure.stores.base import Query
from tenure.sweeper import Sweeper
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    LEASE,
    MICROSECOND,
    SECOND,
    ask,
    brought_to,
    claim,
    claim_one,
    fail,
    ids,
    read,
    renew,
)

moments = pytest.mark.parametrize(
    ("shift", "reached"),
    [(-MICROSECOND, False), (0 * SECOND, True), (MICROSECOND, True)],
    ids=["a microsecond before", "exactly then", "a microsecond after"],
)


@moments
async def test_a_task_is_due_from_its_moment_on(queue, store, clock, shift, reached):
    task = await queue.submit("greet", delay=10)
    clock.set(task.available_at + shift)
    answer = await ask(store)
    assert ids(answer.tasks) == ([task.id] if reached else [])
    if not reached:
        assert answer.next_due == task.available_at


@moments
async def test_a_task_has_expired_from_its_deadline_on(queue, store, clock, shift, reached):
    task = await queue.submit("greet", ttl=10)
    clock.set(task.expires_at + shift)
    assert ids(await claim(store)) == ([] if reached else [task.id])


@moments
async def test_the_sweep_expires_from_the_deadline_on(queue, store, clock, shift, reached):
    task = await queue.submit("greet", ttl=10, delay=5)
    clock.set(task.expires_at + shift)
    assert ids(await store.overdue(clock(), 10)) == ([task.id] if reached else [])
    assert ids(await Sweeper(store).sweep()) == ([task.id] if reached else [])


async def test_a_task_that_expires_the_moment_it_is_due_never_runs(queue, store, clock):
    task = await queue.submit("greet", delay=10, ttl=10)
    clock.advance(10)
    assert await claim(store) == []
    assert (await read(store, task.id)).status is TaskStatus.Expired


@moments
async def test_a_lease_has_lapsed_from_its_end_on(queue, store, clock, shift, reached):
    held = await brought_to(queue, "running")
    clock.set(held.lease_expires_at + shift)
    assert ids(await store.overdue(clock(), 10)) == ([held.id] if reached else [])
    assert ids(await claim(store, by="w2")) == ([held.id] if reached else [])


@moments
async def test_a_renewed_lease_has_lapsed_from_its_new_end_on(queue, store, clock, shift, reached):
    held = await brought_to(queue, "running")
    clock.advance(10)
    await renew(store, held)
    clock.set(held.lease_expires_at + 10 * SECOND + shift)
    assert ids(await claim(store, by="w2")) == ([held.id] if reached else [])


@moments
async def test_a_key_is_free_from_the_end_of_its_record_on(queue, clock, shift, reached):
    task = await queue.submit("greet", 1, idempotency_key="k", idempotency_ttl=10)
    clock.set(task.created_at + 10 * SECOND + shift)
    assert (await queue.submit("greet", 1, idempotency_key="k")).created is reached


@moments
async def test_a_slot_is_free_from_the_end_of_its_record_on(queue, clock, shift, reached):
    task = await queue.submit("greet", 1, slot=("s", "2026-01-28"), idempotency_ttl=10)
    clock.set(task.created_at + 10 * SECOND + shift)
    assert (await queue.submit("greet", 2, slot=("s", "2026-01-28"))).created is reached


@moments
async def test_a_chosen_id_is_remembered_after_pruning_up_to_its_end(queue, store, clock, shift, reached):
    task = await brought_to(queue, "completed", task_id="mine")
    await store.prune({TaskStatus.Completed: clock()}, clock(), 10)
    clock.set(task.remember_until + shift)
    assert (await queue.submit("greet", task_id="mine")).created is reached


@moments
async def test_retention_forgets_from_its_moment_on(queue, store, clock, shift, reached):
    task = await brought_to(queue, "completed")
    assert await store.prune({TaskStatus.Completed: task.completed_at + shift}, clock(), 10) == int(reached)


@moments
async def test_a_pause_is_over_from_its_end_on(queue, store, clock, shift, reached):
    task = await queue.submit("greet")
    until = clock() + 10 * SECOND
    await queue.pause(resume_after=10)
    clock.set(until + shift)
    assert ids(await claim(store)) == ([task.id] if reached else [])


@moments
async def test_ready_and_scheduled_change_places_at_the_due_moment(queue, clock, shift, reached):
    task = await queue.submit("greet", delay=10)
    clock.set(task.available_at + shift)
    assert ids((await queue.list("ready")).tasks) == ([task.id] if reached else [])
    assert ids((await queue.list("scheduled")).tasks) == ([] if reached else [task.id])


async def test_created_before_means_strictly_before(queue, store, clock):
    task = await queue.submit("greet")
    assert (await store.find(Query(created_before=clock()))).tasks == []
    assert ids((await store.find(Query(created_before=clock() + MICROSECOND))).tasks) == [task.id]


@moments
async def test_a_retry_is_due_from_the_end_of_its_back_off_on(queue, store, clock, shift, reached):
    await queue.submit("greet")
    failed = await fail(store, await claim_one(store))
    clock.set(failed.available_at + shift)
    assert ids(await claim(store)) == ([failed.id] if reached else [])


@moments
async def test_leases_of_two_lengths_end_each_in_its_own_time(queue, store, clock, shift, reached):
    await queue.submit_many([("greet", 1), ("greet", 2)])
    first, second = await claim_one(store, lease=LEASE), await claim_one(store, lease=LEASE + SECOND)
    clock.advance(LEASE + SECOND + shift)
    assert set(ids(await claim(store, 2, by="w2"))) == ({first.id, second.id} if reached else {first.id})
