"""Inputs are checked by the annotation, outputs must be JSON."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict as ExtendedTypedDict
from waiting import PATIENCE

from tenure import BaseJobHandler, RetryPolicy, TaskStatus, Worker


class Reminder(pydantic.BaseModel):
    user_id: str
    at: dt.datetime | None = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Address(TypedDict):
    city: str
    street: NotRequired[str]


class Parcel(ExtendedTypedDict):
    weight: int


class Receipt(pydantic.BaseModel):
    total: float
    paid_at: dt.date


async def ended(worker, type_, input):
    task = await worker.queue.submit(type_, input)
    await worker.run(until_idle=True)
    return await worker.queue.get(task.id)


def handler_for(annotation):
    async def handler(input):
        handler.seen = input

    handler.__annotations__ = {"input": annotation}
    return handler


@pytest.mark.parametrize(
    ("annotation", "good", "read", "bad"),
    [
        (Reminder, {"user_id": "7"}, Reminder(user_id="7"), {"user": "7"}),
        (Point, {"x": 1}, Point(1, 0), {"x": "one"}),
        (Address, {"city": "Bonn"}, {"city": "Bonn"}, {"city": 5}),
        (Address, {"city": "Bonn", "street": "Am Hof"}, {"city": "Bonn", "street": "Am Hof"}, {"street": "Am Hof"}),
        (Parcel, {"weight": 2}, {"weight": 2}, {"weight": "light"}),
        (int, 5, 5, "five"),
        (str, "text", "text", 5),
        (list[int], [1, 2], [1, 2], [1, "b"]),
        (dict[str, bool], {"a": True}, {"a": True}, {"a": {}}),
        (Literal["on", "off"], "on", "on", "sideways"),
        (int | None, None, None, []),
        (dt.date, "2026-01-28", dt.date(2026, 1, 28), "soon"),
    ],
)
async def test_an_input_is_read_as_annotated_and_one_that_does_not_fit_is_dead_at_once(
    memory, annotation, good, read, bad
):
    worker = Worker(memory, retry=RetryPolicy(base=0, max_attempts=5))
    handler = handler_for(annotation)
    worker.register(handler, "job")
    assert (await ended(worker, "job", good)).status is TaskStatus.Completed
    assert handler.seen == read
    del handler.seen
    refused = await ended(worker, "job", bad)
    assert (refused.status, refused.attempts) == (TaskStatus.Failed, 1)
    assert "the input does not fit 'job'" in refused.last_error
    assert not hasattr(handler, "seen")


async def test_an_error_about_an_input_names_the_fields_and_tells_no_values_which_may_be_secret(memory):
    worker = Worker(memory)

    @worker.task("job")
    async def job(input: Reminder): ...

    refused = await ended(worker, "job", {"user_id": 5, "at": "noonish"})
    for words in ("user_id: ", "at: "):
        assert words in refused.last_error
    assert "noonish" not in refused.last_error


class Country(pydantic.BaseModel):
    code: str

    @pydantic.field_validator("code")
    @classmethod
    def known(cls, code):
        return {"at": "Austria"}[code]


async def test_a_validator_that_fails_has_refused_nothing_and_is_an_attempt_like_any_other(memory):
    worker = Worker(memory, retry=RetryPolicy(base=0, jitter=0, max_attempts=2))

    @worker.task("job")
    async def job(input: Country): ...

    async with asyncio.timeout(PATIENCE):
        task = await ended(worker, "job", {"code": "xx"})
    assert (task.status, task.attempts, task.last_error) == (TaskStatus.Failed, 2, "KeyError: 'xx'")


@pytest.mark.parametrize("annotation", [Any, dict, object])
async def test_an_open_annotation_takes_what_was_submitted(memory, annotation):
    worker, handler = Worker(memory), handler_for(annotation)
    worker.register(handler, "job")
    given = {"big": 2**70, "none": None, "emoji": "🦉", "nested": {"empty": [], "object": {}}}
    await ended(worker, "job", given)
    assert handler.seen == given


async def test_without_an_annotation_the_input_comes_as_it_is(memory):
    worker, seen = Worker(memory), []
    worker.register(lambda anything: seen.append(anything), "job")  # noqa: PLW0108 - a plain function without annotation
    await ended(worker, "job", {"a": [1, None]})
    assert seen == [{"a": [1, None]}]


@pytest.mark.parametrize("value", [None, True, 2**70, 1.5, "ü🦉", [], {}, {"a": [{"b": None}]}])
async def test_the_value_a_handler_returns_is_kept(queue, value):
    worker = Worker(queue)
    worker.register(lambda _: value, "job")
    done = await ended(worker, "job", None)
    assert (done.status, done.output) == (TaskStatus.Completed, value)


async def test_a_pydantic_model_and_a_dataclass_are_kept_as_json(memory):
    worker = Worker(memory)
    worker.register(lambda _: Receipt(total=9.5, paid_at=dt.date(2026, 1, 28)), "model")
    worker.register(lambda _: Point(1, 2), "dataclass")
    assert (await ended(worker, "model", None)).output == {"total": 9.5, "paid_at": "2026-01-28"}
    assert (await ended(worker, "dataclass", None)).output == {"x": 1, "y": 2}


async def test_models_times_and_dataclasses_are_kept_wherever_they_stand_in_an_output(memory):
    worker = Worker(memory)
    worker.register(lambda _: [Receipt(total=9.5, paid_at=dt.date(2026, 1, 28))], "models")
    worker.register(lambda _: {"when": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, "time")
    assert (await ended(worker, "models", None)).output == [{"total": 9.5, "paid_at": "2026-01-28"}]
    assert (await ended(worker, "time", None)).output == {"when": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, float("nan"), b"bytes", {"when": {1, 2}}, "\ud800", msgspec.Raw(b"{bad")]
)
async def test_a_value_that_is_not_json_is_a_failure_for_good(memory, value):
    worker = Worker(memory, retry=RetryPolicy(base=0, max_attempts=5))
    worker.register(lambda _: value, "job")
    failed = await ended(worker, "job", None)
    assert (failed.status, failed.attempts) == (TaskStatus.Failed, 1)
    assert "returned something that is not JSON" in failed.last_error


async def test_an_output_over_the_limit_of_the_store_is_a_failure_for_good_that_names_the_limit(memory):
    memory.store.size_limit = 100
    worker = Worker(memory, retry=RetryPolicy(base=0, max_attempts=5))
    worker.register(lambda size: "x" * size, "job")
    assert (await ended(worker, "job", 98)).status is TaskStatus.Completed
    failed = await ended(worker, "job", 99)
    assert (failed.status, failed.attempts) == (TaskStatus.Failed, 1)
    assert "the output has 101 bytes of JSON; this store takes up to 100" in failed.last_error


class Sync(BaseJobHandler):
    job_type = "sync"

    @classmethod
    def payload_model(cls):
        return Reminder

    def handle(self, payload):
        return f"plain {payload.user_id}"


class WithContext(Sync):
    def handle(self, payload, context):
        return f"attempt {context.attempt} for {payload.user_id}"


class Async(Sync):
    async def handle(self, payload):
        return f"async {payload.user_id}"


class AsyncWithContext(Sync):
    async def handle(self, payload, context):
        return f"async fence {context.fence} for {payload.user_id}"


class Open(BaseJobHandler):
    job_type = "sync"

    def handle(self, payload):
        return payload


class NotDerived:
    job_type = "sync"

    @classmethod
    def payload_model(cls):
        return Reminder

    def handle(self, payload):
        return f"by shape {payload.user_id}"


@pytest.mark.parametrize(
    ("handler", "output"),
    [
        (Sync, "plain 7"),
        (WithContext, "attempt 1 for 7"),
        (Async, "async 7"),
        (AsyncWithContext, "async fence 1 for 7"),
        (Open, {"user_id": "7"}),
        (NotDerived, "by shape 7"),
    ],
)
async def test_a_class_can_be_a_handler(memory, handler, output):
    worker = Worker(memory)
    assert worker.register(handler) is handler
    assert worker.types == ("sync",)
    assert (await ended(worker, "sync", {"user_id": "7"})).output == output


async def test_a_class_handler_is_made_anew_for_each_attempt(memory):
    class Counts(BaseJobHandler):
        def __init__(self):
            self.count = 0

        def handle(self, payload):
            self.count += 1
            return self.count

    worker = Worker(memory)
    worker.register(Counts)
    outputs = [(await ended(worker, "Counts", None)).output for _ in range(3)]
    assert outputs == [1, 1, 1]


async def test_a_class_handlers_payload_is_checked_too(memory):
    worker = Worker(memory)
    worker.register(Async)
    refused = await ended(worker, "sync", {"user": 1})
    assert (refused.status, refused.attempts) == (TaskStatus.Failed, 1)
    assert "user_id" in refused.last_error


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    user_id: int = pydantic.Field(alias="userId")

    @pydantic.computed_field
    def name(self) -> str:
        return f"user {self.user_id}"


async def test_a_model_with_an_alias_and_a_computed_field_reaches_its_own_handler(memory):
    worker = Worker(memory)

    @worker.task("greet")
    async def greet(input: Aliased) -> Aliased:
        return input

    done = await ended(worker, "greet", Aliased(userId=5))
    assert (done.status, done.output) == (TaskStatus.Completed, {"user_id": 5, "name": "user 5"})
