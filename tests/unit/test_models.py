"""Rules 9, 10, 25: values of a type keep everything, or are refused; outputs are shown as pydantic writes them."""

import dataclasses
import enum
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from tenure import payload
from tenure.errors import InvalidInput
from tenure.models import difference

BERLIN = ZoneInfo("Europe/Berlin")
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
"""An hour that the clocks of Berlin show two times."""


class Aliased(pydantic.BaseModel):
    user_id: int = pydantic.Field(alias="userId")


class WrittenOtherwise(pydantic.BaseModel):
    user_id: int = pydantic.Field(serialization_alias="userId")


class WrittenOtherwiseWithDefault(pydantic.BaseModel):
    user_id: int = pydantic.Field(0, serialization_alias="userId")


class Square(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    side: int

    @pydantic.computed_field
    def area(self) -> int:
        return self.side**2


class Embedded(pydantic.BaseModel):
    text: pydantic.Json[Any]


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


class Private(pydantic.BaseModel):
    name: str
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)


class Many(pydantic.BaseModel):
    whole: Decimal | None = None
    span: timedelta | None = None
    names: set[str] = set()
    id: UUID | None = None
    by_number: dict[int, list[Aliased]] = {}
    at: datetime | None = None


class Measured(pydantic.BaseModel):
    value: Annotated[Decimal, pydantic.Field(allow_inf_nan=True)] = Decimal(0)
    again: float = 0.0


class Unequal:
    """A class of a user's own that says nothing about equality."""

    def __init__(self, text: str) -> None:
        self.text = text


class Incomparable(Unequal):
    def __eq__(self, other: object) -> bool:
        raise TypeError(other)

    __hash__ = None


def written_as_text(kind):
    return Annotated[
        kind,
        pydantic.PlainValidator(lambda value: value if isinstance(value, kind) else kind(value)),
        pydantic.PlainSerializer(lambda value: value.text),
    ]


class Foreign(pydantic.BaseModel):
    unequal: written_as_text(Unequal) = Unequal("a")
    incomparable: written_as_text(Incomparable) = Incomparable("b")


class Animal(pydantic.BaseModel):
    name: str


class Dog(Animal):
    breed: str


class Owner(pydantic.BaseModel):
    pets: list[Animal]


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Hidden(pydantic.BaseModel):
    shown: int = 1
    token: str = pydantic.Field("", exclude=True)


class HiddenAndNeeded(pydantic.BaseModel):
    token: str = pydantic.Field(exclude=True)


class Grows(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def longer(cls, value: str) -> str:
        return f"{value}!"


class ReadOtherwise(pydantic.BaseModel):
    user_id: int = pydantic.Field(validation_alias="userId")


class Undecided(pydantic.BaseModel):
    numbers: list[int] | set[int]


class Raises(pydantic.BaseModel):
    name: str = ""

    @pydantic.field_validator("name")
    @classmethod
    def looked_up(cls, value: str) -> str:
        return {"known": value}[value]

    @pydantic.field_serializer("name")
    def written(self, value: str) -> str:
        if value == "unwritable":
            raise KeyError(value)
        return value


@dataclasses.dataclass
class Visit:
    by: str
    at: datetime


@pydantic.dataclasses.dataclass
class Booking:
    guest: str = pydantic.Field(alias="guestName")


@dataclasses.dataclass
class Unknown:
    what: Unequal
    of: Any = None


class Colour(enum.Enum):
    Red = "red"


def read(value):
    return pydantic.TypeAdapter(type(value)).validate_json(bytes(payload.to_json(value)))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Aliased(userId=5), {"userId": 5}),
        (WrittenOtherwise(user_id=5), {"user_id": 5}),
        (WrittenOtherwiseWithDefault(user_id=5), {"user_id": 5}),
        (Square(side=2), {"side": 2}),
        (Embedded(text='{"a": 1}'), {"text": '{"a":1}'}),
        (Open(more=[1, {"a": None}]), {"more": [1, {"a": None}]}),
        (Hidden(shown=2), {"shown": 2}),
        (Visit("Ada", datetime(2026, 1, 28, tzinfo=UTC)), {"by": "Ada", "at": "2026-01-28T00:00:00Z"}),
        (Booking(guestName="Ada"), {"guestName": "Ada"}),
    ],
)
def test_what_a_producer_hands_in_is_what_its_type_reads(value, stored):
    assert payload.from_json(payload.to_json(value)) == stored
    assert read(value) == value


@pytest.mark.parametrize(
    "value",
    [
        Many(
            whole=Decimal("1.50"),
            span=timedelta(days=1, microseconds=1),
            names={"a", "b"},
            id=UUID(int=7),
            by_number={1: [Aliased(userId=5)]},
            at=datetime(2026, 1, 28, 1, 2, 3, 4, tzinfo=BERLIN),
        ),
        Many.model_construct(names={"a"}, by_number={1: (Aliased(userId=5),)}),
    ],
)
def test_everything_that_pydantic_reads_back_is_kept(value):
    assert difference(value, read(value), "input") is None


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_is_kept_in_the_hour_that_a_zone_repeats(fold):
    moment = TWICE.replace(fold=fold)
    assert read(Many(at=moment)).at.astimezone(UTC) == moment.astimezone(UTC)


def test_a_number_that_equals_nothing_is_kept_where_its_type_writes_it():
    assert read(Measured(value="NaN")).value.is_nan()


def test_private_attributes_are_not_part_of_an_input():
    value = Private(name="a")
    value._seen.append(1)
    assert payload.from_json(payload.to_json(value)) == {"name": "a"}


def test_what_cannot_be_compared_is_taken_at_its_word():
    assert payload.from_json(payload.to_json(Foreign())) == {"unequal": "a", "incomparable": "b"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            Login(user="ada", password="hunter2"),
            "input.password of Login is lost in JSON: its handler would get SecretStr('**********') (SecretStr)",
        ),
        (Hidden(token="hunter2"), "input.token of Hidden is lost in JSON: its handler would get '' (str)"),
        (HiddenAndNeeded(token="hunter2"), "input of HiddenAndNeeded is refused by its own type"),
        (
            Owner(pets=[Dog(name="Rex", breed="Pug")]),
            "input.pets[0] of Owner is lost in JSON: its handler would get Animal(",
        ),
        (Grows(name="a"), "input.name of Grows is lost in JSON: its handler would get 'a!!' (str)"),
        (ReadOtherwise(userId=5), "input of ReadOtherwise is refused by its own type"),
        (Undecided(numbers={1}), "input.numbers of Undecided is lost in JSON"),
        (Open(when=date(2026, 1, 1)), "input.when of Open is lost in JSON"),
        (
            Open(many={1, 2}),
            "input.many of Open is lost in JSON: its handler would get [1, 2] (list) instead of the set",
        ),
        (Open(by_number={1: 2}), "input.by_number of Open is lost in JSON"),
        (Many.model_construct(at=datetime(2026, 1, 1), whole=1, span="PT1S"), "input.span of Many is lost"),  # noqa: DTZ001
        (Raises.model_construct(name="new"), "refused by its own type when it is read back from JSON: KeyError: 'new'"),
        (Raises.model_construct(name="unwritable"), "input of Raises is not JSON"),
        (Visit("Ada", date(2026, 1, 28)), "input.at is datetime.date(2026, 1, 28) (date), which is not JSON"),
        (Unknown(Unequal("a")), "input.what is <"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_not_come_back_is_refused_by_name(value, words):
    with pytest.raises(InvalidInput) as refusal:
        payload.to_json(value)
    assert words in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_what_code_of_a_user_raised_is_the_cause():
    with pytest.raises(InvalidInput) as refusal:
        payload.to_json(Raises.model_construct(name="new"))
    assert isinstance(refusal.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Square(side=2), {"side": 2, "area": 4}),
        ([Aliased(userId=5), {"pet": Animal(name="Rex")}], [{"user_id": 5}, {"pet": {"name": "Rex"}}]),
        (Login(user="ada", password="hunter2"), {"user": "ada", "password": "**********"}),
        (datetime(2026, 1, 28, tzinfo=UTC), "2026-01-28T00:00:00Z"),
        ({"on": date(2026, 1, 28), "for": timedelta(seconds=90)}, {"on": "2026-01-28", "for": "PT1M30S"}),
        ((Decimal("1.50"), UUID(int=7), Colour.Red), ["1.50", "00000000-0000-0000-0000-000000000007", "red"]),
        (Visit("Ada", datetime(2026, 1, 28, tzinfo=UTC)), {"by": "Ada", "at": "2026-01-28T00:00:00Z"}),
        ([Unknown(1, [Animal(name="Rex")])], [{"what": 1, "of": [{"name": "Rex"}]}]),
        (msgspec.Raw(b'{"a": 1}'), {"a": 1}),
        (None, None),
        ({"a": (1, None)}, {"a": [1, None]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_output_is_kept_as_pydantic_writes_it(value, stored):
    assert payload.from_json(payload.output_json(value)) == stored


def containing_itself():
    value: list = []
    value += [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {1}}, "output.a is {1} (set), which is not JSON"),
        ([{1: 2}], "output[0] has the key 1"),
        (math.nan, "output is nan"),
        ([date(2026, 1, 1), b"bytes"], "output[1] is b'bytes' (bytes)"),
        (Visit("Ada", {1}), "output.at is {1} (set)"),
        (Unknown(Unequal("a")), "output.what is <"),
        ([Open(a=object())], "output[0] of Open is not JSON"),
        (Raises.model_construct(name="unwritable"), "output of Raises is not JSON"),
        (Measured(again=math.nan), "output.again is nan"),
        (containing_itself(), "or contains itself"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_output_that_is_not_json_is_refused_with_its_place(value, words):
    with pytest.raises(InvalidInput) as refusal:
        payload.output_json(value)
    assert words in str(refusal.value)


@pytest.mark.parametrize("keep", [payload.to_json, payload.output_json])
@pytest.mark.parametrize(
    "raw",
    [
        b"{bad",
        b"",
        b"NaN",
        b"1e999",
        b'"\\ud800"',
        b'"\xff"',
        b"1 2",
        b"[" * 5000 + b"]" * 5000,
        b"[" * 101 + b"]" * 101,
    ],
    ids=lambda raw: repr(raw[:10]),
)
def test_json_that_was_made_elsewhere_is_read_once_before_it_is_stored(keep, raw):
    with pytest.raises(InvalidInput, match=r"msgspec\.Raw\(|nested more than 100 levels"):
        keep(msgspec.Raw(raw))


def test_sound_json_that_was_made_elsewhere_is_kept_as_it_is():
    raw = msgspec.Raw(b'{"a": [1.50]}')
    assert payload.to_json(raw) is raw
