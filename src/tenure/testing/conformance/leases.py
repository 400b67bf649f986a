"""Rules 20 to 23: leases are kept, lapse, and a newer claim shuts an older one out."""

from datetime import timedelta

import pytest

from tenure import lifecycle
from tenure.errors import LeaseLost
from tenure.stores.base import Change, Hold, Renewal
from tenure.sweeper import Sweeper
from tenure.task import Progress, TaskStatus
from tenure.testing.conformance.steps import (
    LEASE,
    SECOND,
    ask,
    brought_to,
    claim,
    claim_one,
    complete,
    fail,
    ids,
    read,
    release,
    renew,
    reschedule,
    stop,
)


async def test_a_renewed_lease_counts_from_now(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(10)
    assert await renew(store, held) is Hold.Held
    stored = await read(store, held.id)
    assert stored.lease_expires_at == clock() + LEASE
    assert (stored.version, stored.history) == (held.version, held.history)


async def test_a_renewal_never_makes_a_lease_shorter(queue, store, clock):
    held = await brought_to(queue, "running")
    assert await renew(store, held, 100 * LEASE) is Hold.Held
    assert await renew(store, held, SECOND) is Hold.Held
    assert (await read(store, held.id)).lease_expires_at == clock() + 100 * LEASE


async def test_a_request_to_cancel_that_crosses_a_renewal_does_not_shorten_the_lease(queue, store, clock):
    held = await brought_to(queue, "running")
    seen = await read(store, held.id)
    await renew(store, held, 100 * LEASE)
    asked = lifecycle.cancel(seen, clock())
    assert await store.swap([Change(seen, asked)]) == [True]
    stored = await read(store, held.id)
    assert stored.cancel_requested is True
    assert stored.lease_expires_at == clock() + 100 * LEASE


async def test_a_renewed_lease_keeps_others_out(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE - SECOND)
    await renew(store, held)
    clock.advance(LEASE - SECOND)
    assert await claim(store, by="w2") == []
    assert await Sweeper(store).sweep() == []
    assert (await complete(store, held)).status is TaskStatus.Completed


async def test_one_batch_of_renewals_answers_for_each_claim(queue, store):
    kept, asked, ended, lost = [await brought_to(queue, "running") for _ in range(4)]
    await queue.cancel(asked.id)
    await complete(store, ended)
    assert await store.renew(
        [
            Renewal(kept.id, kept.fence, LEASE),
            Renewal(asked.id, asked.fence, LEASE),
            Renewal(ended.id, ended.fence, LEASE),
            Renewal(lost.id, lost.fence + 1, LEASE),
            Renewal("nobody", 1, LEASE),
        ]
    ) == [Hold.Held, Hold.CancelRequested, Hold.Lost, Hold.Lost, Hold.Lost]
    assert await store.renew([]) == []


async def test_progress_travels_with_a_renewal_and_stays_until_the_next_report(queue, store):
    held = await brought_to(queue, "running")
    await store.renew([Renewal(held.id, held.fence, LEASE, Progress(3, 10, "reading ☕"))])
    assert (await read(store, held.id)).progress == Progress(3, 10, "reading ☕")
    await renew(store, held)
    assert (await read(store, held.id)).progress == Progress(3, 10, "reading ☕")


async def test_the_progress_of_one_attempt_is_not_that_of_the_next(queue, store, clock):
    held = await brought_to(queue, "running")
    await store.renew([Renewal(held.id, held.fence, LEASE, Progress(3))])
    await fail(store, held)
    clock.advance(60)
    assert (await claim_one(store)).progress is None
    assert (await read(store, held.id)).progress is None


async def test_a_lapsed_lease_is_a_failed_attempt_and_the_task_is_due_at_once(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE)
    answer = await ask(store, by="w2")
    (again,) = answer.tasks
    (lapsed,) = answer.overdue
    assert (lapsed.status, lapsed.attempts, lapsed.available_at) == (TaskStatus.Pending, 1, clock())
    assert "lease lapsed" in lapsed.last_error
    assert "w1" in lapsed.last_error
    assert (again.id, again.worker_id, again.attempts) == (held.id, "w2", 1)
    assert again.fence > held.fence


async def test_lapsed_claims_of_other_types_and_queues_are_recovered_on_the_way(queue, store, clock):
    held = await brought_to(queue, "running", "other", queue="elsewhere")
    clock.advance(LEASE)
    answer = await ask(store)
    assert list(answer.tasks) == []
    assert (await read(store, held.id)).status is TaskStatus.Pending
    assert ids(answer.overdue) == [held.id]


async def test_the_sweep_recovers_lapsed_claims_that_nobody_polls_for(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE)
    (swept,) = await Sweeper(store).sweep()
    assert swept == await read(store, held.id)
    assert (swept.status, swept.attempts, swept.history[-1].what) == (TaskStatus.Pending, 1, "lapsed")
    assert await Sweeper(store).sweep() == []


async def test_a_sweep_does_not_lapse_a_claim_that_was_renewed_after_it_looked(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE)
    (seen,) = await store.overdue(clock(), 10)
    assert await renew(store, held) is Hold.Held
    change = Change(seen, lifecycle.lapse(seen, clock()), if_unrenewed=True)
    assert await store.swap([change]) == [False]
    assert (await read(store, held.id)).lease_expires_at == clock() + LEASE


async def test_overdue_lists_lapsed_claims_and_passed_deadlines_longest_overdue_first(queue, store, clock):
    second = await brought_to(queue, "running")
    first = await queue.submit("greet", ttl=10, delay=1000)
    third = await queue.submit("greet", ttl=40, delay=1000)
    await queue.submit("greet", ttl=1000)
    await queue.submit("greet")
    clock.advance(50)
    assert ids(await store.overdue(clock(), 10)) == [first.id, second.id, third.id]
    assert ids(await store.overdue(clock(), 2)) == [first.id, second.id]


async def test_a_task_that_kills_its_workers_is_dead_after_its_limit(queue, store, clock):
    await queue.submit("greet", max_attempts=3)
    for attempt in (1, 2, 3):
        (held,) = await claim(store, by=f"victim-{attempt}")
        assert held.attempt == attempt
        clock.advance(LEASE)
    assert await claim(store) == []
    dead = await read(store, held.id)
    assert (dead.status, dead.attempts, dead.limit) == (TaskStatus.Failed, 3, 3)
    assert "lease lapsed" in dead.last_error
    assert [event.what for event in dead.history].count("lapsed") == 3


ZOMBIE_STEPS = {
    "complete": lambda store, held: complete(store, held, "too late"),
    "fail": fail,
    "release": release,
    "stop": stop,
    "reschedule": lambda store, held: reschedule(store, held, 5),
}


@pytest.mark.parametrize("step", ZOMBIE_STEPS.values(), ids=ZOMBIE_STEPS)
@pytest.mark.parametrize("second", ["w2", "w1"], ids=["another worker", "the same worker again"])
async def test_nothing_an_older_claim_writes_takes_effect_after_a_newer_one(queue, store, clock, step, second):
    old = await brought_to(queue, "running")
    clock.advance(LEASE)
    new = await claim_one(store, by=second)
    with pytest.raises(LeaseLost):
        await step(store, old)
    assert await renew(store, old) is Hold.Lost
    assert await read(store, old.id) == new
    assert (await complete(store, new, "in time")).output == "in time"
    with pytest.raises(LeaseLost):
        await step(store, old)
    assert (await read(store, old.id)).output == "in time"


async def test_a_swap_from_an_older_version_changes_nothing(queue, store, clock):
    old = await brought_to(queue, "running")
    clock.advance(LEASE)
    new = await claim_one(store, by="w2")
    change = Change(old, lifecycle.complete(old, old.fence, old.input_json, clock()))
    assert await store.swap([change]) == [False]
    assert await read(store, old.id) == new


async def test_a_late_completion_is_accepted_while_the_lapse_was_not_even_noticed(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(10 * LEASE)
    done = await complete(store, held, "late")
    assert (done.status, done.attempts) == (TaskStatus.Completed, 0)


async def test_a_late_completion_is_accepted_after_the_lapse_while_nobody_else_has_claimed(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE)
    await Sweeper(store).sweep()
    done = await complete(store, held, "late")
    assert (done.status, done.output, done.completed_at) == (TaskStatus.Completed, "late", clock())
    assert await read(store, held.id) == done
    assert await claim(store) == []


async def test_a_late_failure_is_refused_after_the_lapse_was_counted(queue, store, clock):
    held = await brought_to(queue, "running")
    clock.advance(LEASE)
    await Sweeper(store).sweep()
    with pytest.raises(LeaseLost):
        await fail(store, held)
    assert (await read(store, held.id)).attempts == 1


async def test_a_claim_given_back_spends_no_attempt_and_goes_to_the_next_worker_at_once(queue, store):
    held = await brought_to(queue, "running")
    given = await release(store, held)
    assert (given.status, given.attempts, given.worker_id, given.lease_expires_at) == ("pending", 0, None, None)
    again = await claim_one(store, by="w2")
    assert (again.id, again.attempt) == (held.id, 1)
    with pytest.raises(LeaseLost):
        await complete(store, held)


async def test_leases_of_any_length_survive_to_the_microsecond(queue, store, clock):
    clock.advance(timedelta(microseconds=123_457))
    lease = timedelta(seconds=1, microseconds=1)
    await queue.submit("greet")
    held = await claim_one(store, lease=lease)
    assert (await read(store, held.id)).lease_expires_at == clock() + lease
