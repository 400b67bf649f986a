"""The record and its JSON form: what is stored comes back the same."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import payload
from tenure.errors import DamagedRecord, InvalidInput
from tenure.retry import RetryPolicy
from tenure.task import ENDED, FORMAT, OPEN, Progress, Task, TaskStatus, decode, decode_many, encode

from .builders import IN_STATUS, NOW, at, pending, replace, running

MICROSECOND = timedelta(microseconds=1)


def test_the_statuses_and_their_words():
    assert {status.name: status.value for status in TaskStatus} == {
        "Pending": "pending",
        "Running": "running",
        "Completed": "completed",
        "Failed": "failed",
        "Cancelled": "cancelled",
        "Expired": "expired",
        "Archived": "archived",
    }
    assert TaskStatus.Expired == "expired"


def test_open_and_ended_statuses_are_all_there_are():
    assert {TaskStatus.Pending, TaskStatus.Running} == OPEN
    assert set(ENDED) | OPEN == set(TaskStatus)
    assert [status.ended for status in TaskStatus] == [False, False, True, True, True, True, True]


@pytest.mark.parametrize("status", list(TaskStatus))
def test_a_task_of_every_status_survives_a_round_trip(status):
    task = IN_STATUS[status](
        input_json=payload.to_json({"text": "naïve 🐢", "big": 2**80, "none": None, "empty": [{}, []]}),
        tags=("a", "b"),
        headers={"traceparent": "00-1"},
        retry=RetryPolicy.patient(),
        expires_at=at(3600) + MICROSECOND,
        ordering_key="user-42",
        priority=-5,
        timeout=1.5,
    )
    again = decode(encode(task))
    assert again == task
    assert again.input == {"text": "naïve 🐢", "big": 2**80, "none": None, "empty": [{}, []]}


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_microsecond_survives(moment):
    task = replace(pending(), expires_at=moment, lease_expires_at=moment)
    again = decode(encode(task))
    assert (again.expires_at, again.lease_expires_at) == (moment, moment)


def test_the_input_is_read_anew_on_each_access():
    task = pending(input_json=payload.to_json({"list": []}))
    task.input["list"].append(1)
    assert task.input == {"list": []}


def test_a_task_without_output_has_none():
    assert pending().output is None


def test_the_type_has_two_names_and_the_attempt_is_the_next_one():
    task = running()
    assert (task.type, task.task_type) == ("greet", "greet")
    assert (task.attempts, task.attempt) == (0, 1)


def test_the_plain_form_has_every_field_under_its_stored_name():
    task = replace(running(input_json=payload.to_json([1, None])), progress=Progress(1, 2, "half"))
    plain = task.to_dict()
    assert set(plain) == {field.encode_name for field in msgspec.structs.fields(Task)} | {"updated_at", "ended_at"}
    assert (plain["task_type"], plain["status"], plain["input"], plain["output"]) == (
        "greet",
        "running",
        [1, None],
        None,
    )
    assert plain["progress"] == {"current": 1, "total": 2, "message": "half"}
    assert [event["what"] for event in plain["history"]] == ["created", "claimed"]
    written = json.loads(json.dumps(plain))
    stored = json.loads(encode(task))
    assert [list(event.values()) for event in written["history"]] == stored.pop("history")
    assert {name: written[name] for name in stored} == stored


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{",
        b"null",
        b"{}",
        b"\xff",
        b'{"id": "t1"}',
        encode(pending())[:-1],
        encode(pending()).replace(b'"greet"', b"5"),
        encode(pending()).replace(b'"pending"', b'"snoozing"'),
        encode(pending()).replace(b'"greet"', b'"\xff"'),
        encode(replace(pending(), input_json=msgspec.Raw(b"[" * 5000 + b"]" * 5000))),
        encode(replace(pending(), retry=RetryPolicy(jitter=1))).replace(b'"jitter":1', b'"jitter":7'),
    ],
)
def test_a_damaged_record_is_an_error_that_names_the_task(record):
    with pytest.raises(DamagedRecord) as damage:
        decode(record, "t1")
    assert damage.value.task_id == "t1"
    assert "task t1 cannot be read" in str(damage.value)


def test_a_record_of_a_newer_format_is_not_read():
    newer = encode(replace(pending(), format=FORMAT + 1))
    with pytest.raises(
        DamagedRecord, match=f"written in format {FORMAT + 1} by a newer Tenure; this one reads up to 1"
    ):
        decode(newer, "t1")


def test_many_records_are_read_in_one_step():
    tasks = [pending(id=f"t{number}") for number in range(3)]
    assert decode_many(b"[" + b",".join(encode(task) for task in tasks) + b"]") == tasks


@pytest.mark.parametrize(
    "one",
    [
        b"",
        b"{}",
        b"\xff",
        b"1],[2",
        encode(replace(pending(), format=FORMAT + 1)),
        encode(replace(pending(), history=())),
        encode(pending())[:-1] + b',"colour":"blue"}',
    ],
)
def test_many_are_not_read_when_one_of_them_needs_a_closer_look(one):
    assert decode_many(b"[" + encode(pending()) + b"," + one + b"]") == []


def test_a_record_with_a_field_that_is_not_known_yet_is_read():
    record = json.loads(encode(pending())) | {"colour": "blue"}
    task = decode(json.dumps(record).encode())
    assert task.to_dict() == pending().to_dict() | {"colour": "blue"}


@pytest.mark.parametrize(
    ("now", "before", "after"), [(at(10) - MICROSECOND, True, False), (at(10), False, True), (at(11), False, True)]
)
def test_boundaries_at_exact_equality(now, before, after):
    task = replace(pending(available_at=at(10), expires_at=at(10)), lease_expires_at=at(10))
    assert task.is_available_at(now) is after
    assert task.is_expired_at(now) is after
    assert task.is_leased_at(now) is before


def test_a_task_without_deadline_never_expires_and_without_lease_is_never_held():
    assert not pending().is_expired_at(datetime.max.replace(tzinfo=UTC))
    assert not pending().is_leased_at(datetime.min.replace(tzinfo=UTC))


def test_a_time_may_be_written_out_and_a_naive_one_is_utc():
    task = pending(available_at=at(10))
    assert task.is_available_at("2026-01-28T17:00:10Z")
    assert not task.is_available_at("2026-01-28T17:00:09.999999Z")
    assert task.is_available_at("2026-01-28T18:00:10+01:00")
    assert task.is_available_at(datetime(2026, 1, 28, 17, 0, 10))  # noqa: DTZ001 - that is the point
    with pytest.raises(InvalidInput, match="'tomorrow' is no time"):
        task.is_available_at("tomorrow")


def test_records_are_compact():
    assert len(encode(pending())) < 350
    assert NOW.isoformat().encode()[:19] in encode(pending())
