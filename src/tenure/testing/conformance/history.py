"""Rule 40: every transition is an event of the task's own history, bounded, and enough to rebuild its state."""

from datetime import timedelta

from tenure.lifecycle import HISTORY_HEAD, HISTORY_TAIL
from tenure.task import Event, TaskStatus
from tenure.testing.checker import check
from tenure.testing.conformance.steps import (
    LEASE,
    alike,
    claim,
    claim_one,
    complete,
    everything,
    fail,
    read,
    release,
    renew,
    reschedule,
    stop,
)


async def test_every_transition_is_an_event(queue, store, clock):
    task = await queue.submit("greet", max_attempts=4)
    clock.advance(1)
    await fail(store, await claim_one(store, by="w1"), "boom")
    clock.advance(1)
    await reschedule(store, await claim_one(store, by="w2"), 5)
    clock.advance(5)
    await release(store, await claim_one(store, by="w3"))
    await claim_one(store, by="w4")
    clock.advance(LEASE)
    held = await claim_one(store, by="w5")
    await queue.cancel(task.id, "enough", "ada")
    await stop(store, held)
    await queue.retry(task.id, by="bob")
    await complete(store, await claim_one(store, by="w6"))
    await queue.archive(task.id)

    history = await queue.history(task.id)
    assert [event.number for event in history] == list(range(1, 17))
    assert [(event.what, event.status, event.worker, event.attempt) for event in history] == [
        ("created", "pending", None, 0),
        ("claimed", "running", "w1", 1),
        ("failed", "pending", "w1", 1),
        ("claimed", "running", "w2", 2),
        ("rescheduled", "pending", "w2", 1),
        ("claimed", "running", "w3", 2),
        ("released", "pending", "w3", 1),
        ("claimed", "running", "w4", 2),
        ("lapsed", "pending", "w4", 2),
        ("claimed", "running", "w5", 3),
        ("cancel requested", "running", "w5", 2),
        ("stopped", "cancelled", "w5", 2),
        ("retried", "pending", None, 0),
        ("claimed", "running", "w6", 1),
        ("completed", "completed", "w6", 1),
        ("archived", "archived", None, 0),
    ]
    assert [event.fence for event in alike(await read(store, task.id)).history] == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
        5,
        5,
        5,
        5,
        6,
        6,
        6,
    ]
    assert [event.at for event in history] == sorted(event.at for event in history)
    assert history[2].why == "boom"
    assert (history[10].why, history[12].why) == ("enough; by ada", "by bob")


async def test_the_deadline_stands_in_the_first_event(queue, clock):
    task = await queue.submit("greet", ttl=timedelta(hours=1))
    (created,) = await queue.history(task.id)
    assert created == Event(1, TaskStatus.Pending, clock(), "created", why="expires_at: 2026-01-28T13:00:00.000000Z")


async def test_renewals_are_no_events(queue, store):
    await queue.submit("greet")
    held = await claim_one(store)
    await renew(store, held)
    assert await queue.history(held.id) == held.history


async def test_a_very_long_history_keeps_its_first_and_last_events_and_a_count_of_the_rest(queue, store):
    task = await queue.submit("greet")
    for _ in range(160):
        await release(store, await claim_one(store))
    stored = await read(store, task.id)
    assert stored.version == 321
    numbers = [event.number for event in stored.history]
    assert numbers == [*range(1, HISTORY_HEAD + 1), *range(322 - HISTORY_TAIL, 322)]
    assert stored.history_omitted == 321 - HISTORY_HEAD - HISTORY_TAIL
    assert check([stored], [task.id]) == []
    await complete(store, await claim_one(store))
    assert (await read(store, task.id)).history[-1].number == 323


async def test_history_alone_rebuilds_the_state_of_every_task(queue, store, clock):
    tasks = await queue.submit_many([("greet", number) for number in range(12)], max_attempts=2)
    await queue.cancel(tasks[0].id)
    await queue.mark_expired(tasks[1].id)
    for number, held in enumerate(await claim(store, 8)):
        if number % 4 == 0:
            await complete(store, held)
        elif number % 4 == 1:
            await fail(store, held, permanent=number == 5)
        elif number % 4 == 2:
            await queue.cancel(held.id)
    clock.advance(LEASE)
    await claim(store, 3)
    assert check(await everything(store), [task.id for task in tasks]) == []
