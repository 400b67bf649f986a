"""Rules 11 to 17: one key, one task."""

import asyncio
from datetime import date, timedelta

import msgspec
import pytest

from tenure.errors import IdempotencyConflict
from tenure.idempotency import Kind, Reservation, hash_key
from tenure.payload import input_hash, to_json
from tenure.queue import Queue
from tenure.submission import build
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import MICROSECOND, brought_to, claim, everything, ids

ENDED = ["completed", "failed", "cancelled", "expired", "archived"]


def record(clock, key="k", task_id="named-by-the-record", input=None, **words):  # noqa: A002
    """The record that a producer of `greet` would write."""
    words = {"kind": Kind.TaskType, "scope": "greet", "task_type": "greet", "state": "creating"} | words
    return Reservation(
        key=key,
        key_hash=hash_key(words["scope"], key),
        task_id=task_id,
        created_at=clock(),
        input_hash=input_hash(to_json(input)),
        expires_at=clock() + timedelta(days=30),
        **words,
    )


async def test_without_a_key_every_submit_is_a_new_task(queue):
    first, second = await queue.submit("greet", 1), await queue.submit("greet", 1)
    assert first.id != second.id
    assert second.created is True


async def test_the_same_key_returns_the_same_task(queue, store):
    first = await queue.submit("greet", {"a": 1, "b": [2]}, idempotency_key="k")
    again = await queue.submit("greet", {"b": [2], "a": 1}, idempotency_key="k")
    assert (first.created, again.created) == (True, False)
    assert again == msgspec.structs.replace(first, created=False)
    assert await everything(store) == [first]
    assert first.idempotency_key == "k"


async def test_a_batch_goes_in_order_also_where_one_rests_on_another_and_a_third_on_that(queue, store):
    batch = [
        ("write", 1, {"task_id": "mine"}),
        ("greet", 2, {"task_id": "mine", "idempotency_key": "k"}),
        ("greet", 2, {"idempotency_key": "k"}),
    ]
    answers = await queue.submit_many(batch)
    assert [(answer.id, answer.created) for answer in answers] == [("mine", True), ("mine", False), ("mine", False)]
    assert [task.id for task in await everything(store)] == ["mine"]


async def test_the_repeat_sees_the_task_as_it_is_now(queue):
    done = await brought_to(queue, "completed", idempotency_key="k")
    again = await queue.submit("greet", {"for": "completed"}, idempotency_key="k")
    assert again == msgspec.structs.replace(done, created=False)


async def test_the_same_key_with_another_input_is_a_conflict_and_creates_nothing(queue, store):
    first = await queue.submit("greet", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as conflict:
        await queue.submit("greet", 2, idempotency_key="k")
    assert (conflict.value.key, conflict.value.task_id) == ("k", first.id)
    assert await everything(store) == [first]


@pytest.mark.parametrize("scope", ["queue", "tenant-7"])
async def test_in_a_wider_scope_another_type_is_a_conflict(queue, store, scope):
    first = await queue.submit("greet", 1, idempotency_key="k", idempotency_scope=scope)
    with pytest.raises(IdempotencyConflict):
        await queue.submit("other", 1, idempotency_key="k", idempotency_scope=scope)
    assert await everything(store) == [first]


async def test_in_the_default_scope_each_type_has_its_own_keys(queue):
    first = await queue.submit("greet", 1, idempotency_key="k")
    second = await queue.submit("other", 1, idempotency_key="k")
    assert first.id != second.id


async def test_scopes_never_collide(queue, store):
    submits = [
        ("queue", "k", "task_type"),
        ("greet", "k", "task_type"),
        ("greet", "k", "queue"),
        ("greet", "k", "greet"),
        ("greet", "k", "type"),
        ("greet", "k", "slot"),
        ("greet", "c", "a:b"),
        ("greet", "b:c", "a"),
        ("greet", "k", "a/b"),
        ("greet", "k", "a"),
        ("greet", "b/k", "a"),
        ("greet", "k\x00", "a"),
        ("greet", "☕", "☕"),
        ("greet", "k'; --", "a"),
    ]
    first = [
        await queue.submit(type_, 1, idempotency_key=key, idempotency_scope=scope) for type_, key, scope in submits
    ]
    slot = await queue.submit("greet", 1, slot=("k", "2026-01-01"))
    assert all(task.created for task in first)
    again = [
        await queue.submit(type_, 1, idempotency_key=key, idempotency_scope=scope) for type_, key, scope in submits
    ]
    assert ids(again) == ids(first)
    assert len(await everything(store)) == len(submits) + 1
    assert slot.created


async def test_the_records_of_keys_can_be_asked_for(store, clock):
    options = [
        {"idempotency_key": "k"},
        {"idempotency_key": "☕/#:\x00", "idempotency_scope": "a/b#c"},
        {"slot": ("what#ever", "2026-01-01"), "idempotency_ttl": 5},
        {"idempotency_key": "nobody's"},
    ]
    made = [build("greet", 1, each, clock(), 1000) for each in options]
    await store.insert(made[:3])
    clock.advance(10)
    asked = [build("greet", 2, each, clock(), 1000).reservation for each in reversed(options)]
    found = await store.reserved(asked)
    assert found[0] is None
    assert [msgspec.structs.replace(each, state="ready") for each in found[1:]] == [
        each.reservation for each in reversed(made[:3])
    ]
    assert await store.reserved([]) == []


async def test_one_hundred_producers_with_one_key_get_one_task(open_store, clock):
    queues = [Queue(await open_store(clock)) for _ in range(5)]
    tasks = await asyncio.gather(
        *(queues[number % 5].submit("greet", {"same": True}, idempotency_key="k") for number in range(100))
    )
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) == 1
    assert ids(await everything(queues[0].store)) == [tasks[0].id]
    assert (await queues[0].counts())[TaskStatus.Pending] == 1


async def test_a_producer_that_died_after_the_record_is_finished_under_its_task_id(store, queue, clock, tamper):
    await tamper.plant(store, record(clock, input=1))
    task = await queue.submit("greet", 1, idempotency_key="k")
    assert (task.id, task.created) == ("named-by-the-record", True)
    again = await queue.submit("greet", 1, idempotency_key="k")
    assert (again.id, again.created) == ("named-by-the-record", False)


async def test_one_hundred_producers_finish_what_a_dead_one_began_as_one_task(open_store, clock, tamper):
    queues = [Queue(await open_store(clock)) for _ in range(5)]
    await tamper.plant(queues[0].store, record(clock, input=1))
    tasks = await asyncio.gather(*(queues[number % 5].submit("greet", 1, idempotency_key="k") for number in range(100)))
    assert set(ids(tasks)) == {"named-by-the-record"}
    assert [task.created for task in tasks].count(True) == 1
    assert len(await everything(queues[0].store)) == 1


async def test_the_unfinished_record_of_another_input_is_a_conflict(store, queue, clock, tamper):
    await tamper.plant(store, record(clock, input=1))
    with pytest.raises(IdempotencyConflict):
        await queue.submit("greet", 2, idempotency_key="k")
    assert await everything(store) == []


async def test_a_stale_record_gives_way_at_its_very_end_and_not_before(queue, clock):
    first = await queue.submit("greet", 1, idempotency_key="k", idempotency_ttl=10)
    clock.advance(timedelta(seconds=10) - MICROSECOND)
    assert (await queue.submit("greet", 1, idempotency_key="k")).id == first.id
    clock.advance(MICROSECOND)
    second = await queue.submit("greet", "another input", idempotency_key="k")
    assert second.created is True
    assert second.id != first.id
    assert (await queue.submit("greet", "another input", idempotency_key="k")).id == second.id


async def test_of_many_racers_for_a_stale_record_one_makes_a_new_task(open_store, clock):
    queues = [Queue(await open_store(clock)) for _ in range(2)]
    first = await queues[0].submit("greet", 1, idempotency_key="k", idempotency_ttl=10)
    clock.advance(10)
    tasks = await asyncio.gather(*(queues[number % 2].submit("greet", 1, idempotency_key="k") for number in range(20)))
    assert len(set(ids(tasks))) == 1
    assert tasks[0].id != first.id
    assert len(await everything(queues[0].store)) == 2


async def test_a_record_whose_task_is_gone_is_repaired_once(open_store, clock, tamper):
    queues = [Queue(await open_store(clock)) for _ in range(2)]
    first = await queues[0].submit("greet", 1, idempotency_key="k")
    await tamper.lose(queues[0].store, first.id)
    tasks = await asyncio.gather(*(queues[number % 2].submit("greet", 1, idempotency_key="k") for number in range(20)))
    assert len(set(ids(tasks))) == 1
    assert [task.created for task in tasks].count(True) == 1
    assert len(await everything(queues[0].store)) == 1


@pytest.mark.parametrize("status", ENDED)
async def test_the_record_lives_for_its_own_time_whatever_happens_to_the_task(queue, store, clock, status):
    task = await brought_to(queue, status, idempotency_key="k")
    clock.advance(timedelta(days=29))
    await store.prune({TaskStatus(status): clock()}, clock(), 10)
    assert await queue.get(task.id) is None
    again = await queue.submit("greet", {"for": status}, idempotency_key="k")
    assert (again.id, again.created, again.status) == (task.id, False, status)
    with pytest.raises(IdempotencyConflict):
        await queue.submit("greet", "another", idempotency_key="k")
    clock.advance(timedelta(days=1))
    assert (await queue.submit("greet", {"for": status}, idempotency_key="k")).created is True


async def test_a_record_without_an_end_is_kept_for_ever(queue, store, clock):
    task = await brought_to(queue, "completed", idempotency_key="k", idempotency_ttl=None)
    clock.advance(timedelta(days=40_000))
    await store.prune({TaskStatus.Completed: clock()}, clock(), 10)
    assert (await queue.submit("greet", {"for": "completed"}, idempotency_key="k")).id == task.id


async def test_purging_stale_records_changes_nothing_that_can_be_seen(queue, store, clock):
    first = await queue.submit("greet", 1, idempotency_key="k", idempotency_ttl=10)
    clock.advance(10)
    assert await store.prune({}, clock(), 10) == 1
    second = await queue.submit("greet", 1, idempotency_key="k")
    assert second.created is True
    assert set(ids(await everything(store))) == {first.id, second.id}


async def test_a_slot_reserves_one_job_whatever_its_input(queue, store):
    first = await queue.submit("summary", {"v": 1}, slot=("summary#user-42", date(2026, 1, 28)))
    again = await queue.submit("summary", {"v": 2}, slot=("summary#user-42", "2026-01-28"))
    assert (again.id, again.created, again.input) == (first.id, False, {"v": 1})
    next_day = await queue.submit("summary", {"v": 1}, slot=("summary#user-42", date(2026, 1, 29)))
    other_user = await queue.submit("summary", {"v": 1}, slot=("summary#user-43", date(2026, 1, 28)))
    assert next_day.created
    assert other_user.created
    assert len(await everything(store)) == 3


async def test_a_slot_stays_taken_when_its_job_has_ended_and_was_pruned(queue, store, clock):
    task = await brought_to(queue, "completed", slot=("daily", date(2026, 1, 28)))
    clock.advance(timedelta(days=8))
    await store.prune({TaskStatus.Completed: clock()}, clock(), 10)
    again = await queue.submit("greet", slot=("daily", date(2026, 1, 28)))
    assert (again.id, again.created) == (task.id, False)


async def test_a_slot_whose_job_is_gone_is_taken_over_once(open_store, clock, tamper):
    queues = [Queue(await open_store(clock)) for _ in range(2)]
    first = await queues[0].submit("greet", 1, slot=("daily", date(2026, 1, 28)))
    await tamper.lose(queues[0].store, first.id)
    tasks = await asyncio.gather(
        *(queues[number % 2].submit("greet", number, slot=("daily", date(2026, 1, 28))) for number in range(20))
    )
    assert len(set(ids(tasks))) == 1
    assert tasks[0].id != first.id
    assert len(await claim(queues[1].store, 10)) == 1


async def test_a_slot_of_a_far_day_is_kept_for_its_time_after_that_day(queue, clock):
    far = clock() + timedelta(days=365)
    first = await queue.submit("greet", slot=("yearly", far.date()), schedule_at=far)
    clock.set(far + timedelta(days=30) - MICROSECOND)
    assert (await queue.submit("greet", slot=("yearly", far.date()), schedule_at=far)).id == first.id
    clock.advance(MICROSECOND)
    assert (await queue.submit("greet", slot=("yearly", far.date()), schedule_at=far)).created is True
