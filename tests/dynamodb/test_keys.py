"""The form of keys and items: names and keys of the scheduled-jobs document."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidInput
from tenure.stores.dynamodb.keys import Keys, Lane, Ranks, fitted, read_scheduled_key, scheduled_key
from tenure.testing.conformance.steps import brought_to, claim_one, complete, fail

from .conftest import items

JOB = "0197a3b0-0000-7000-8000-000000000001"
NOW = datetime(2026, 1, 28, 17, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_key_is_read_as_it_was_made(moment, job):
    key = scheduled_key(moment, str(job))
    assert key.startswith("scheduled#")
    assert read_scheduled_key(key) == (moment, str(job))


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_keys_sort_as_their_moments_do(one, other):
    assert (one < other) == (scheduled_key(one, JOB) < scheduled_key(other, JOB))


@pytest.mark.parametrize(
    "key",
    [
        "", "scheduled", "scheduled##", f"scheduled#2026-01-28T17:00:00Z#{JOB}", f"job#2026-01-28T17:00:00.000000Z#{JOB}",
        "scheduled#2026-01-28T17:00:00.000000Z#", "scheduled#2026-01-28T17:00:00.000000Z#mine",
        f"scheduled#2026-01-28T17:00:00.000000Z#{JOB.upper()}", f"scheduled#2026-01-28T17:00:00.000000Z#{JOB}#",
        f"scheduled#2026-13-28T17:00:00.000000Z#{JOB}", f"scheduled#2026-01-28 17:00:00.000000Z#{JOB}",
    ],
)  # fmt: skip
def test_a_malformed_key_is_refused_by_name(key):
    with pytest.raises(InvalidInput):
        read_scheduled_key(key)


def test_a_key_is_not_made_of_what_is_no_uuid():
    with pytest.raises(InvalidInput, match="mine"):
        scheduled_key(NOW, "mine")


def test_names_with_slashes_and_long_names_never_share_a_key():
    keys = Keys("")
    lanes = [
        Lane("a/b", "c", 0), Lane("a", "b/c", 0), Lane("a%2Fb", "c", 0), Lane("a", "b", 0), Lane("a", "b", -1),
        Lane("x" * 255, "ü" * 255, 0), Lane("x" * 255, "ü" * 254 + "u", 0), Lane("🐢" * 255, "🐢" * 255, 0),
    ]  # fmt: skip
    assert len({keys.due(lane, 0) for lane in lanes}) == len(lanes)
    assert len({keys.lane(lane) for lane in lanes}) == len(lanes)
    assert all(len(keys.due(lane, 0).encode()) <= 2048 for lane in lanes)
    assert all(len(keys.lane(lane)[1].encode()) <= 1024 for lane in lanes)
    assert fitted("short", 1024) == "short"


def test_places_in_the_order_of_submits_grow_whatever_the_ids_are():
    ranks = Ranks()
    ids = [JOB, "mine", JOB, "ffffffff-ffff-4fff-bfff-ffffffffffff", "0197a3b0-0000-7000-8000-000000000002"]
    given_out = [ranks.next(task_id, NOW, chosen=task_id != JOB) for task_id in ids]
    assert given_out[0] == JOB
    assert given_out == sorted(set(given_out))


async def test_an_item_has_the_attributes_of_the_document(store, queue, clock):
    task = await queue.submit("daily_summary", {"user": 42}, delay=60, ordering_key="u", tags=["a"])
    ((item,),) = [[item for item in await items(store) if "job_type" in item and "payload" in item]]
    plain = {name: next(iter(value.values())) for name, value in item.items()}
    assert plain["job_type"] == "daily_summary"
    assert plain["payload"] == '{"user":42}'
    assert plain["status"] == "pending"
    assert plain["attempts"] == "0"
    assert plain["created_at"] == "2026-01-28T12:00:00.000000Z"
    assert plain["scheduled_for"] == "2026-01-28T12:01:00.000000Z"
    assert plain["due_sk"] == f"scheduled#{plain['scheduled_for']}#{task.id}"
    assert plain["due_pk"] == f"{store.address.prefix}job/default/daily_summary/0"
    assert not {"locked_by", "lock_expires_at", "last_error", "completed_at"} & item.keys()


async def test_a_running_task_stands_at_the_end_of_its_lease_and_an_ended_one_is_in_no_way_of_a_poll(
    store, queue, clock
):
    await queue.submit("greet")
    held = await fail(store, await claim_one(store))
    clock.advance(10)
    held = await claim_one(store)
    (item,) = [item for item in await items(store) if "payload" in item]
    assert item["locked_by"]["S"] == "w1"
    assert item["last_error"]["S"] == "boom"
    assert item["time_sk"]["S"] == f"scheduled#{item['lock_expires_at']['S']}#{held.id}"
    assert "due_pk" not in item
    await complete(store, held)
    (item,) = [item for item in await items(store) if "payload" in item]
    assert item["completed_at"]["S"] == "2026-01-28T12:00:10.000000Z"
    assert not {"due_pk", "due_sk", "locked_by", "lock_expires_at"} & item.keys()


async def test_a_slot_is_an_item_per_subject_and_day_that_points_to_its_job(store, queue):
    task = await queue.submit("summary", slot=("summary#user-42", date(2026, 1, 28)))
    (slot,) = [item for item in await items(store) if "job_pk" in item]
    assert slot["pk"]["S"] == f"{store.address.prefix}scheduled-job#summary#user-42"
    assert slot["sk"]["S"] == "2026-01-28"
    assert (slot["job_pk"]["S"], slot["job_sk"]["S"]) == store._known.keys.task(task.id)
    assert int(slot["ttl"]["N"]) > 0


async def test_what_a_forgotten_task_leaves_has_an_end_that_the_table_knows(store, queue, clock):
    task = await brought_to(queue, "completed", task_id="mine")
    await queue.purge(task.id)
    (stone,) = [item for item in await items(store) if "stone" in item]
    assert abs(int(stone["ttl"]["N"]) - task.remember_until.timestamp()) <= 1


async def test_long_histories_are_compressed(store, queue):
    task = await queue.submit("greet", max_attempts=1000)
    for _ in range(30):
        held = await claim_one(store, limit=1000)
        await fail(store, held, "a long story " * 100)
        store._clock.advance(10)
    assert len((await queue.get(task.id)).history) == 61
    (item,) = [item for item in await items(store) if "payload" in item]
    assert "B" in item["record"]
