"""Fields of a record that only a newer version knows: kept, and kept apart from damage."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from tenure import DamagedRecord, lifecycle
from tenure.idempotency import Kind, Reservation, read_reservation
from tenure.task import FORMAT, Task, decode, encode
from tenure.unknown import MOST

NOON = datetime(2026, 1, 28, 12, tzinfo=UTC)
PLAIN = lifecycle.submit(now=NOON, id="t1", type="greet", available_at=NOON)
KEY = Reservation(Kind.TaskType, "greet", "k", "sha256:0", "t1", "greet", NOON, state="creating")


def record(**more):
    return json.dumps(json.loads(encode(PLAIN)) | more).encode()


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"a": [1, {"b": None}]}, 10**30, "☃"])
def test_any_value_is_written_again_as_it_was(value):
    after = lifecycle.cancel(decode(record(colour=value)), NOON)
    assert json.loads(encode(after))["colour"] == value


def test_a_record_without_unknown_fields_is_a_plain_task():
    assert type(decode(record())) is Task
    assert isinstance(decode(record(colour=1)), Task)


def test_two_records_with_the_same_unknown_fields_compare_by_their_values():
    assert decode(record(colour=1)) == decode(record(colour=1))
    assert decode(record(colour=1)) != decode(record(colour=2))


def test_a_known_field_that_is_damaged_is_damage_whatever_else_is_there():
    with pytest.raises(DamagedRecord, match="Expected `int`"):
        decode(record(colour=1, version="two"), "t1")


def test_a_newer_format_is_called_so_also_when_nothing_else_can_be_read():
    with pytest.raises(DamagedRecord, match="newer Tenure"):
        decode(record(format=FORMAT + 1, history="elsewhere", colour=1), "t1")


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_name_that_no_field_has_is_damage(name):
    with pytest.raises(DamagedRecord):
        decode(record(**{name: 1}), "t1")


def test_a_flood_of_unknown_fields_is_damage():
    assert decode(record(**{f"field {number}": 1 for number in range(MOST)}))
    with pytest.raises(DamagedRecord, match="unknown field"):
        decode(record(**{f"field {number}": 1 for number in range(MOST + 1)}), "t1")


def test_the_record_of_a_key_keeps_them_too():
    text = json.dumps(json.loads(msgspec.json.encode(KEY)) | {"colour": "blue"})
    finished = msgspec.structs.replace(read_reservation(text, "k"), state="ready")
    assert json.loads(msgspec.json.encode(finished))["colour"] == "blue"


def test_a_damaged_record_of_a_key_names_the_key():
    with pytest.raises(DamagedRecord, match="record of key type/greet"):
        read_reservation(b"{}", "type/greet")


def test_a_record_of_a_newer_version_without_a_history_is_damaged():
    with pytest.raises(DamagedRecord, match="no history"):
        decode(record(colour="red", history=[]))
