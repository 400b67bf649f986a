"""Rules 9, 10: inputs are JSON, and kept exactly."""

import collections
import dataclasses
import decimal
import enum
import json
import math
import threading
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import payload
from tenure.errors import InvalidInput
from tenure.payload import DEPTH_LIMIT


def round_trip(value):
    return payload.from_json(payload.to_json(value))


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


class Address(pydantic.BaseModel):
    street: str
    since: date | None = None


class Person(pydantic.BaseModel):
    name: str
    addresses: list[Address] = []
    score: float = 1.0
    extra: Any = None


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


class Colour(enum.StrEnum):
    Red = "red"


class Size(enum.IntEnum):
    Small = 1


class Text(str):  # noqa: SLOT000 - a class of a user's own
    def __str__(self) -> str:
        return "hidden"


class Whole(int):
    pass


class Real(float):
    pass


UNICODE = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | UNICODE,
    lambda children: st.lists(children) | st.dictionaries(UNICODE, children),
    max_leaves=10,
)


@given(JSON)
def test_whatever_is_json_comes_back_the_same(value):
    again = round_trip(value)
    assert again == value
    assert json.dumps(again) == json.dumps(value)


@given(JSON)
def test_what_is_stored_is_what_every_other_reader_of_json_reads(value):
    assert json.loads(bytes(payload.to_json(value))) == value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -0.0,
        2**63,
        2**64 + 1,
        -(2**100),
        10**4000,
        1e22,
        5e-324,
        1.7976931348623157e308,
        "",
        "naïve 🐢 \u2028 \x00 \x7f",
        [],
        {},
        [None, [None, {}], {"": []}],
        {"a": {"b": {"c": None}}},
        nested(DEPTH_LIMIT),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_odd_but_valid_inputs_are_kept_exactly(value):
    again = round_trip(value)
    assert again == value
    assert type(again) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, again) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Person(name="Ada"), {"name": "Ada", "addresses": [], "score": 1.0, "extra": None}),
        (
            Person(name="Ada", addresses=[Address(street="A", since=date(2026, 1, 28))], score=2),
            {"name": "Ada", "addresses": [{"street": "A", "since": "2026-01-28"}], "score": 2.0, "extra": None},
        ),
        (Point(1, "a"), {"x": 1, "y": "a"}),
        (Point(Point((1, 2)), [Point(3)]), {"x": {"x": [1, 2], "y": None}, "y": [{"x": 3, "y": None}]}),
        ((1, (2, 3)), [1, [2, 3]]),
        ({"pair": (1, 2)}, {"pair": [1, 2]}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (Colour.Red, "red"),
        ([Size.Small, {Colour.Red: Size.Small}], [1, {"red": 1}]),
        (Text("shown"), "shown"),
        ({"text": Text("shown"), "whole": Whole(5), "real": Real(1.5)}, {"text": "shown", "whole": 5, "real": 1.5}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_a_plain_form_is_stored_in_it(value, stored):
    assert round_trip(value) == stored


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "input is nan, which JSON cannot express"),
        ([1, math.inf], "input[1] is inf"),
        ({"a": [{"b": -math.inf}]}, "input.a[0].b is -inf"),
        (Real("nan"), "input is nan"),
        (b"bytes", "input is b'bytes' (bytes), which is not JSON"),
        ({"a": b"bytes"}, "input.a is b'bytes' (bytes)"),
        (datetime(2026, 1, 28, tzinfo=UTC), "(datetime), which is not JSON"),
        ({"when": date(2026, 1, 28)}, "input.when is datetime.date(2026, 1, 28) (date)"),
        ({1, 2}, "input is {1, 2} (set)"),
        ([decimal.Decimal(1)], "input[0] is Decimal('1') (Decimal)"),
        ({"id": UUID(int=1)}, "input.id is UUID("),
        (1j, "input is 1j (complex)"),
        (object, "input is <class 'object'> (type)"),
        (Point, "(type), which is not JSON"),
        ([Point(1)], "input[0] is Point(x=1, y=None) (Point)"),
        ({1: "a"}, "input has the key 1, which is no string"),
        ({"a": {None: 1}}, "input.a has the key None"),
        ({("a", "b"): 1}, "input has the key ('a', 'b')"),
        ("\ud800", "input holds text that is not valid Unicode (surrogates not allowed)"),
        ({"a": ["caf\udce9"]}, "input holds text that is not valid Unicode"),
        ({"\ud800": 1}, "input holds text that is not valid Unicode"),
        (10**5000, "input holds a number that cannot be written as JSON (Exceeds the limit (4300 digits)"),
        (nested(DEPTH_LIMIT + 1), "nested more than 100 levels deep"),
        (nested(5000), "nested more than 100 levels deep"),
        (Point(threading.Lock()), "input of Point is not JSON: TypeError: cannot pickle"),
        (Point({1}), "input.x is {1} (set)"),
        (Point(Person(name="Ada")), "input.x is Person("),
        (Person(name="Ada", score=math.nan), "input.score is nan"),
        (Person(name="Ada", extra=b"\xff"), "input of Person is not JSON"),
        (Person(name="Ada", extra=object()), "input of Person is not JSON"),
        (Person(name="\ud800"), "input holds text that is not valid Unicode"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, str) and value.isascii() else "",
)
def test_what_is_not_json_is_refused_with_its_place(value, words):
    with pytest.raises(InvalidInput) as refusal:
        payload.to_json(value)
    assert words in str(refusal.value)


@pytest.mark.parametrize("kind", ["list", "dict", "dataclass", "model"])
def test_what_contains_itself_is_refused(kind):
    value: Any = {"list": [], "dict": {}, "dataclass": Point(1), "model": Person(name="Ada")}[kind]
    if kind == "list":
        value.append(value)
    elif kind == "dict":
        value["self"] = value
    elif kind == "dataclass":
        value.x = value
    else:
        value.extra = value
    with pytest.raises(InvalidInput, match=r"contains itself|is not JSON"):
        payload.to_json(value)


def test_an_output_is_called_an_output():
    with pytest.raises(InvalidInput, match=r"^output\.a is \{1\} \(set\)"):
        payload.output_json({"a": {1}})


def test_whatever_is_accepted_can_be_read_by_a_typed_handler():
    raw = bytes(payload.to_json(nested(DEPTH_LIMIT)))
    assert pydantic.TypeAdapter(Any).validate_json(raw) == nested(DEPTH_LIMIT)


def test_a_size_is_in_bytes():
    assert payload.size(payload.to_json("🐢")) == 6


@given(JSON)
def test_the_hash_of_an_input_does_not_depend_on_the_order_of_keys(value):
    def turned_round(part):
        if isinstance(part, list):
            return [turned_round(item) for item in part]
        return {key: turned_round(part[key]) for key in reversed(part)} if isinstance(part, dict) else part

    assert payload.input_hash(payload.to_json(turned_round(value))) == payload.input_hash(payload.to_json(value))


@given(JSON, JSON)
def test_two_inputs_hash_alike_only_if_they_are_the_same_json(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (payload.input_hash(payload.to_json(one)) == payload.input_hash(payload.to_json(other))) is same


def test_the_hash_of_an_input_is_that_of_its_canonical_json():
    raw = payload.to_json({"b": [1, None], "a": "é"})
    # printf '{"a":"é","b":[1,null]}' | sha256sum
    assert payload.input_hash(raw) == "sha256:3d92f6368f93f3cb36a4e7a721098054dfbfd705e31fa50409f2d99e0727a08c"
