"""Rules 3 and 5 to 10: what a submit leaves in the store."""

import asyncio
from datetime import UTC, date, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.errors import IdempotencyConflict, InvalidInput
from tenure.queue import Queue
from tenure.retry import RetryPolicy
from tenure.submission import build
from tenure.task import TaskStatus
from tenure.testing.conformance.steps import (
    MICROSECOND,
    brought_to,
    claim,
    claim_one,
    complete,
    everything,
    ids,
    read,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


async def test_a_submitted_task_reads_back_as_it_was_acknowledged(queue, store):
    task = await queue.submit("greet", {"name": "Ada"})
    assert task.status is TaskStatus.Pending
    assert task.created is True
    assert await read(store, task.id) == task
    assert await queue.get(task.id) == task


async def test_a_task_is_there_for_every_other_handle_when_submit_returns(queue, open_store, clock):
    task = await queue.submit("greet", {"name": "Ada"})
    other = await open_store(clock)
    assert await read(other, task.id) == task


async def test_an_unknown_id_is_none(store, queue):
    known = await queue.submit("greet")
    assert await store.get(["nobody", known.id, "nobody"]) == [None, known, None]
    assert await store.get([]) == []


async def test_every_option_is_kept(queue, store, clock):
    task = await queue.submit(
        "greet",
        {"name": "Ada"},
        queue="mail",
        priority=-7,
        ordering_key="user/42 ☕",
        tags=["a", "b", "a"],
        delay=5,
        ttl=60,
        max_attempts=3,
        retry=RetryPolicy(base=1, max_delay=None, jitter=0.5, max_attempts=9),
        timeout=timedelta(seconds=1.5),
        max_reschedules=4,
        headers={"trace": "00-1"},
    )
    stored = await read(store, task.id)
    assert stored == task
    now = clock()
    assert (stored.queue, stored.priority, stored.ordering_key, stored.tags) == ("mail", -7, "user/42 ☕", ("a", "b"))
    assert (stored.created_at, stored.updated_at) == (now, now)
    assert stored.available_at == now + timedelta(seconds=5)
    assert stored.expires_at == now + timedelta(seconds=60)
    assert (stored.max_attempts, stored.timeout, stored.max_reschedules) == (3, 1.5, 4)
    assert stored.retry == RetryPolicy(base=1, max_delay=None, jitter=0.5, max_attempts=9)
    assert stored.headers == {"trace": "00-1"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        "",
        0,
        False,
        {"nested": {"null": None, "empty": [], "none": [None, {"deep": None}]}},
        "héllo 👩‍👩‍👧 \x00 \u2028",
        {"": "empty key", "emoji 🎉": 1},
        -(2**63),
        2**63 - 1,
        2**64 - 1,
        1e308,
        0.1 + 0.2,
        5e-324,
        10**30,
        [-(10**40)],
    ],
    ids=repr,
)
async def test_an_input_is_kept_exactly(queue, store, value):
    task = await queue.submit("greet", value)
    stored = (await read(store, task.id)).input
    assert stored == value
    assert type(stored) is type(value)
    assert (await claim_one(store)).input == value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(values=st.lists(JSON, min_size=1, max_size=6))
async def test_any_json_is_kept_exactly(queue, store, values):
    tasks = await queue.submit_many([("greet", value) for value in values])
    stored = await store.get(ids(tasks))
    assert [task.input for task in stored] == values
    held = {task.id: task for task in await claim(store, len(values))}
    assert [held[task.id].input for task in tasks] == values
    for task in tasks:
        await complete(store, held[task.id], task.input)
    assert [task.output for task in await store.get(ids(tasks))] == values


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 4, 5, 6, 7, 1, tzinfo=UTC),
        datetime(2026, 3, 4, 5, 6, 7, 999_999, tzinfo=UTC),
        datetime(2026, 3, 4, 5, 6, 7, 0, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
    ids=str,
)
async def test_microseconds_survive(queue, store, moment):
    task = await queue.submit("greet", schedule_at=moment, expires_at=moment)
    stored = await read(store, task.id)
    assert (stored.available_at, stored.expires_at) == (moment, moment)
    assert stored.available_at.utcoffset() == timedelta(0)


async def test_every_microsecond_of_the_store_clock_survives(queue, store, clock):
    for _ in range(20):
        clock.advance(MICROSECOND)
        task = await queue.submit("greet")
        held = await claim_one(store)
        assert held.id == task.id
        done = await complete(store, held)
        stored = await read(store, task.id)
        assert stored == done
        assert stored.created_at == stored.started_at == stored.completed_at == stored.history[-1].at == clock()


async def test_naive_times_are_read_as_utc_and_aware_ones_are_converted(queue, store):
    naive = await queue.submit("greet", run_at=datetime(2026, 5, 1, 12))  # noqa: DTZ001 - the point of the test
    aware = await queue.submit("greet", scheduled_for=datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))))
    expected = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert (await read(store, naive.id)).available_at == expected
    assert (await read(store, aware.id)).available_at == expected


async def test_a_ttl_counts_from_the_submit_also_for_a_scheduled_task(queue, clock):
    task = await queue.submit("greet", delay=100, ttl=timedelta(seconds=40))
    assert task.expires_at == clock() + timedelta(seconds=40)


async def test_a_chosen_id_is_returned_unchanged_on_repeat(queue, store):
    first = await queue.submit("greet", {"n": 1}, task_id="order/7 ☕")
    again = await queue.submit("other", {"n": 2}, task_id="order/7 ☕", priority=3)
    assert (first.created, again.created) == (True, False)
    assert (again.id, again.type, again.input) == ("order/7 ☕", "greet", {"n": 1})
    assert await everything(store) == [first]


@pytest.mark.parametrize("status", list(TaskStatus))
async def test_a_chosen_id_is_returned_whatever_became_of_the_task(queue, store, status):
    task = await brought_to(queue, status, task_id="mine")
    again = await queue.submit("greet", {"other": "input"}, task_id="mine")
    assert again.created is False
    assert (again.status, again.version, again.input) == (status, task.version, {"for": str(status)})
    assert len(await everything(store)) == 1


async def test_a_chosen_id_is_returned_also_after_the_task_was_pruned(queue, store, clock):
    done = await brought_to(queue, "completed", task_id="mine")
    clock.advance(timedelta(days=8))
    assert await store.prune({TaskStatus.Completed: clock()}, clock(), 10) == 1
    assert await queue.get("mine") is None
    again = await queue.submit("greet", task_id="mine")
    assert (again.created, again.status, again.completed_at) == (False, TaskStatus.Completed, done.completed_at)
    assert await everything(store) == []


async def test_a_pruned_id_is_free_again_when_its_time_of_remembering_is_over(queue, store, clock):
    await brought_to(queue, "completed", task_id="mine")
    clock.advance(timedelta(days=8))
    await store.prune({TaskStatus.Completed: clock()}, clock(), 10)
    clock.advance(timedelta(days=22) - MICROSECOND)
    assert (await queue.submit("greet", task_id="mine")).created is False
    clock.advance(MICROSECOND)
    assert (await queue.submit("greet", task_id="mine")).created is True


async def test_one_hundred_submits_of_one_chosen_id_make_one_task(open_store, clock):
    queues = [Queue(await open_store(clock)) for _ in range(4)]
    tasks = await asyncio.gather(
        *(queues[number % 4].submit("greet", {"number": number}, task_id="mine") for number in range(100))
    )
    assert [task.created for task in tasks].count(True) == 1
    assert len({(task.id, task.input["number"]) for task in tasks}) == 1


async def test_submits_made_at_once_are_all_there_and_keep_their_order(queue, store):
    tasks = await asyncio.gather(*(queue.submit("greet", number) for number in range(500)))
    assert len({task.id for task in tasks}) == 500
    held = await claim(store, 500)
    assert [task.input for task in held] == list(range(500))


async def test_a_batch_keeps_its_order_and_answers_in_it(queue, store):
    tasks = await queue.submit_many([("greet", number) for number in range(50)], tags=["bulk"])
    assert [task.input for task in tasks] == list(range(50))
    assert ids(await claim(store, 50)) == ids(tasks)


async def test_a_batch_with_a_conflict_leaves_nothing(queue, store):
    await queue.submit("greet", 1, idempotency_key="taken")
    batch = [
        ("greet", 10),
        ("greet", 11, {"idempotency_key": "new", "tags": ["x"], "ordering_key": "k"}),
        ("greet", 2, {"idempotency_key": "taken"}),
        ("greet", 12),
    ]
    with pytest.raises(IdempotencyConflict):
        await queue.submit_many(batch)
    assert [task.input for task in await everything(store)] == [1]
    assert (await queue.counts())[TaskStatus.Pending] == 1
    assert (await queue.submit("greet", 99, idempotency_key="new")).created is True


async def test_a_batch_may_repeat_what_is_there_and_itself(queue, store):
    there = await queue.submit("greet", 1, idempotency_key="k1")
    batch = [
        ("greet", 1, {"idempotency_key": "k1"}),
        ("greet", 2, {"idempotency_key": "k2"}),
        ("greet", 2, {"idempotency_key": "k2"}),
        ("greet", 3, {"task_id": "mine"}),
        ("greet", 4, {"task_id": "mine"}),
        ("greet", 5),
    ]
    tasks = await queue.submit_many(batch)
    assert [task.created for task in tasks] == [False, True, False, True, False, True]
    assert tasks[0].id == there.id
    assert tasks[1].id == tasks[2].id
    assert tasks[4].input == 3
    assert sorted(task.input for task in await everything(store)) == [1, 2, 3, 5]


async def test_an_empty_batch_is_fine(queue):
    assert await queue.submit_many([]) == []


BAD = [
    ("type", lambda queue: queue.submit("", {})),
    ("type", lambda queue: queue.submit("x" * 256, {})),
    ("queue", lambda queue: queue.submit("greet", {}, queue="")),
    ("idempotency_key", lambda queue: queue.submit("greet", {}, idempotency_key="")),
    ("idempotency_key", lambda queue: queue.submit("greet", {}, idempotency_key="k" * 5000)),
    ("ordering_key", lambda queue: queue.submit("greet", {}, ordering_key="")),
    ("input", lambda queue: queue.submit("greet", {"when": date(2026, 1, 1)})),
    ("Raw", lambda queue: queue.submit("greet", msgspec.Raw(b"{bad"))),
    ("nan", lambda queue: queue.submit("greet", [float("nan")])),
    ("delay", lambda queue: queue.submit("greet", {}, delay=-1)),
    ("ttl", lambda queue: queue.submit("greet", {}, ttl=1, expires_at=datetime(2030, 1, 1, tzinfo=UTC))),
    ("slot", lambda queue: queue.submit("greet", {}, slot="no pair")),
    ("headers", lambda queue: queue.submit("greet", {}, headers={"a": "b" * 20_000})),
    ("max_attempts", lambda queue: queue.submit("greet", {}, max_attempts=2**70)),
    ("colour", lambda queue: queue.submit("greet", {}, colour="red")),
    ("delay", lambda queue: queue.submit_many([("greet", 1), ("greet", 2, {"delay": -1})])),
]


@pytest.mark.parametrize(("field", "submit"), BAD, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD)])
async def test_bad_input_is_refused_by_name_before_anything_is_written(queue, store, field, submit):
    with pytest.raises(InvalidInput, match=field):
        await submit(queue)
    assert await everything(store) == []
    assert await store.count() == []


async def test_an_input_over_the_size_limit_is_refused_with_the_limit(queue, store):
    with pytest.raises(InvalidInput, match=str(store.size_limit)):
        await queue.submit("greet", "x" * (store.size_limit - 1))
    assert await everything(store) == []
    fits = await queue.submit("greet", "x" * (store.size_limit - 2))
    assert (await read(store, fits.id)).input == fits.input


async def test_a_batch_over_the_limit_is_refused_with_the_sum_before_anything_is_written(queue, store, monkeypatch):
    monkeypatch.setattr("tenure.submission.BATCH_SIZE_LIMIT", 1000)
    with pytest.raises(InvalidInput, match="2 tasks have 1004 bytes of JSON together; one batch takes up to 1000"):
        await queue.submit_many([("greet", "x" * 500)] * 2)
    assert await everything(store) == []


async def test_an_insert_that_is_made_again_finds_its_tasks_whatever_became_of_them(store, clock):
    """As after an answer that was lost. The ids were made up, so nobody else has them."""
    made = [build("greet", number, {}, clock(), 1000) for number in range(4)]
    assert all(task.created for task in await store.insert(made[:3]))
    clock.advance(1)
    done, held = await claim(store, 2)
    await complete(store, done)
    for batch, created in ((made[:3], [False] * 3), (made, [False] * 3 + [True]), (made[:1], [False])):
        again = await store.insert(batch)
        assert ids(again) == [each.task.id for each in batch]
        assert [task.created for task in again] == created
    statuses = {task.id: task.status for task in await everything(store)}
    expected = {done.id: TaskStatus.Completed, held.id: TaskStatus.Running}
    assert statuses == {each.task.id: expected.get(each.task.id, TaskStatus.Pending) for each in made}
