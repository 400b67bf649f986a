"""Rule 9: bad input is refused before anything is written, with the field and the value."""

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from tenure.arguments import KEY_LIMIT, NAME_LIMIT, shown
from tenure.errors import InvalidInput
from tenure.retry import COUNT_LIMIT, RetryPolicy
from tenure.submission import HEADERS_LIMIT, KNOWN_OPTIONS, PRIORITY_LIMIT, TAGS_LIMIT, build, with_own

from .builders import NOW

FAR_EAST = timezone(timedelta(hours=14))
FAR_WEST = timezone(timedelta(hours=-12))


def refusal(type="greet", input=None, size_limit=1000, **options) -> str:
    with pytest.raises(InvalidInput) as refused:
        build(type, input, options, NOW, size_limit)
    return str(refused.value)


@pytest.mark.parametrize("field", ["type", "queue", "task_id"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "{field} is empty"),
        (
            "x" * (NAME_LIMIT + 1),
            "{field} has 256 characters ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'…); at most 255",
        ),
        (5, "{field} must be a string, not 5."),
        (b"greet", "{field} must be a string, not b'greet'."),
        (["a"], "{field} must be a string, not ['a']."),
        (True, "{field} must be a string, not True."),
        ("caf\udce9", "{field}='caf\\udce9' is not valid Unicode."),
    ],
)
def test_a_name_is_a_string_of_a_fair_length(field, value, words):
    assert words.format(field=field) in refusal(**{field: value})


@pytest.mark.parametrize("field", ["type", "queue"])
def test_a_name_is_not_none(field):
    assert f"{field} must be a string, not None." in refusal(**{field: None})


@pytest.mark.parametrize("field", ["idempotency_key", "idempotency_scope", "ordering_key"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "{field} is empty"),
        ("k" * (KEY_LIMIT + 1), "{field} has 1025 characters ('kkk"),
        (5, "{field} must be a string, not 5."),
        ("\ud800", "{field}='\\ud800' is not valid Unicode."),
    ],
)
def test_a_key_is_a_string_of_a_fair_length(field, value, words):
    assert words.format(field=field) in refusal(**{field: value})


@pytest.mark.parametrize("field", ["delay", "ttl", "ttl_seconds", "timeout", "idempotency_ttl", "idempotency_ttl_days"])
@pytest.mark.parametrize(
    "value",
    [-1, -0.001, timedelta(seconds=-1), True, False, "60", [60], math.nan, math.inf, -math.inf, 10**400, 1e300],
)
def test_a_duration_is_zero_or_more_seconds(field, value):
    words = refusal(**{field: value})
    assert field in words
    assert repr(value) in words


@pytest.mark.parametrize("field", ["delay", "ttl", "ttl_seconds"])
@pytest.mark.parametrize("value", [timedelta.max, 10**12])
def test_a_duration_does_not_lead_past_the_calendar(field, value):
    words = refusal(**{field: value})
    assert field in words
    assert "leads past the year 9999" in words


def test_a_keys_life_does_not_lead_past_the_calendar():
    assert "leads past the year 9999" in refusal(idempotency_key="k", idempotency_ttl_days=10**7)


@pytest.mark.parametrize("value", [0, 0.0, timedelta(0), 1e-9])
def test_a_timeout_leaves_some_time(value):
    assert f"timeout={shown(value)} would end every attempt before it began" in refusal(timeout=value)


@pytest.mark.parametrize("field", ["schedule_at", "run_at", "scheduled_for", "expires_at"])
@pytest.mark.parametrize("value", ["2026-01-28T17:00:00Z", 1769619600, date(2026, 1, 28), timedelta(1), True])
def test_a_moment_is_a_datetime(field, value):
    assert f"{field} must be a datetime, not {value!r}." in refusal(**{field: value})


@pytest.mark.parametrize("field", ["schedule_at", "run_at", "scheduled_for", "expires_at"])
@pytest.mark.parametrize("value", [datetime.min.replace(tzinfo=FAR_EAST), datetime.max.replace(tzinfo=FAR_WEST)])
def test_a_moment_has_a_date_in_utc(field, value):
    words = refusal(**{field: value})
    assert f"{field}={value!r}" in words
    assert "outside the years that UTC can express" in words


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": 60, "expires_at": NOW},
        {"ttl": 60, "ttl_seconds": 60},
        {"ttl_seconds": 60, "expires_at": NOW},
        {"ttl": 0, "ttl_seconds": 0},
        {"schedule_at": NOW, "delay": 5},
        {"schedule_at": NOW, "run_at": NOW},
        {"run_at": NOW, "scheduled_for": NOW},
        {"scheduled_for": NOW, "delay": 0},
        {"max_attempts": 3, "max_retries": 2},
        {"max_attempts": 0, "max_retries": 0},
        {"idempotency_ttl": 5, "idempotency_ttl_days": 1},
        {"idempotency_ttl": None, "idempotency_ttl_days": None},
        {"idempotency_key": "k", "slot": ("a", "b")},
    ],
)
def test_two_words_for_one_thing_are_both_named(options):
    words = refusal(**options)
    for name, value in options.items():
        assert f"{name}={value!r}" in words


@pytest.mark.parametrize("field", ["max_attempts", "max_retries", "max_reschedules"])
@pytest.mark.parametrize("value", [-1, 1.5, "3", True, math.inf, [3]])
def test_a_count_is_a_whole_number(field, value):
    assert f"{field}={value!r} must be a whole number, zero or more." in refusal(**{field: value})


@pytest.mark.parametrize(
    ("field", "limit"),
    [("max_attempts", COUNT_LIMIT), ("max_retries", COUNT_LIMIT - 1), ("max_reschedules", COUNT_LIMIT)],
)
def test_a_count_is_one_that_every_store_can_keep(field, limit):
    assert getattr(build("greet", None, {field: limit}, NOW, 1000).task, field, COUNT_LIMIT) == COUNT_LIMIT
    for value in (limit + 1, 2**70):
        assert f"{field}={value} is too many; at most {limit} are allowed." in refusal(**{field: value})


def test_a_policy_of_a_task_stays_within_what_every_store_can_keep():
    assert build("greet", None, {"retry": RetryPolicy(max_attempts=COUNT_LIMIT)}, NOW, 1000)
    assert f"retry: max_attempts={2**63} is more than any task needs" in refusal(retry=RetryPolicy(max_attempts=2**63))


@pytest.mark.parametrize("value", [1.5, "high", True, PRIORITY_LIMIT + 1, -PRIORITY_LIMIT - 1, math.nan])
def test_a_priority_is_a_small_whole_number(value):
    assert f"priority={value!r} must be a whole number between -32767 and 32767" in refusal(priority=value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("urgent", "tags must be a list of strings, not 'urgent'."),
        (b"urgent", "tags must be a list of strings, not b'urgent'."),
        (5, "tags must be a list of strings, not 5."),
        ({"a"}, "tags must be a list of strings, not {'a'}."),
        (["a", 5], "tags must be a string, not 5."),
        (["a", None], "tags must be a string, not None."),
        (["a", ""], "tags is empty"),
        (["a" * 256], "tags has 256 characters"),
        (["\ud800"], "tags='\\ud800' is not valid Unicode"),
        ([str(n) for n in range(TAGS_LIMIT + 1)], "tags holds 21 tags; at most 20 are allowed."),
    ],
)
def test_tags_are_a_few_names(value, words):
    assert words in refusal(tags=value)


@pytest.mark.parametrize("value", [[("a", "b")], "a=b", {"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}, 5])
def test_headers_map_strings_to_strings(value):
    assert f"headers must map strings to strings, not {value!r}." in refusal(headers=value)


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"\ud800": "a"}])
def test_headers_are_unicode(value):
    assert "headers='\\ud800' is not valid Unicode." in refusal(headers=value)


@pytest.mark.parametrize("value", [{"a": "é" * (HEADERS_LIMIT // 2)}, {"a" * HEADERS_LIMIT: "b"}])
def test_headers_over_the_limit_are_refused_with_it(value):
    words = refusal(headers=value)
    assert f"headers hold {HEADERS_LIMIT + 1} bytes (a" in words
    assert f"at most {HEADERS_LIMIT} are allowed" in words


@pytest.mark.parametrize("own", [5, None, "urgent", [("priority", 5)]])
def test_options_of_one_task_are_a_dict(own):
    with pytest.raises(InvalidInput, match="of a task in a batch must be a dictionary"):
        with_own({}, own)


@pytest.mark.parametrize("value", [{"base": 1}, 5, True, "patient"])
def test_a_retry_policy_is_one(value):
    assert f"retry must be a RetryPolicy, not {value!r}." in refusal(retry=value)


@pytest.mark.parametrize(
    "value",
    ["summary", ("summary",), ("a", "b", "c"), ["summary", "2026-01-28"], ("summary", 5), ("summary", None), 7],
)
def test_a_slot_is_a_pair_of_a_name_and_a_date(value):
    words = refusal(slot=value)
    assert "slot must be a pair of a name and a date, like ('summary#user-42', date(2026, 1, 28))" in words
    assert repr(value) in words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (("", "2026-01-28"), "slot is empty"),
        (("summary", ""), "slot is empty"),
        ((5, "2026-01-28"), "slot must be a string, not 5."),
        (("s" * 1025, "2026-01-28"), "slot has 1025 characters"),
        (("s" * 1024, "2026-01-28"), "slot has 1035 characters"),
        (("summary", "\ud800"), "slot='\\ud800' is not valid Unicode"),
        (("summary", "user-42#2026-01-28"), "must not contain '#'"),
        (("summary", datetime.min.replace(tzinfo=FAR_EAST)), "outside the years that UTC can express"),
    ],
)
def test_the_parts_of_a_slot_are_looked_at(value, words):
    assert words in refusal(slot=value)


def test_an_unknown_option_is_answered_with_the_known_ones():
    words = refusal(prio=5, eta=7)
    assert words == f"Unknown option eta, prio. Known: {', '.join(sorted(KNOWN_OPTIONS))}."


@pytest.mark.parametrize(("length", "fits"), [(98, True), (99, False)])
def test_an_input_over_the_limit_is_refused_with_the_limit(length, fits):
    text = "x" * length
    if fits:
        assert build("greet", text, {}, NOW, 100).task.input == text
    else:
        assert refusal(input=text, size_limit=100) == (
            "input has 101 bytes of JSON; this store takes up to 100. Keep it elsewhere and submit a reference."
        )


def test_the_limit_counts_bytes():
    assert "input has 402 bytes" in refusal(input="🐢" * 100, size_limit=400)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "x" * NAME_LIMIT},
        {"queue": "x" * NAME_LIMIT},
        {"task_id": "x" * NAME_LIMIT},
        {"idempotency_key": "k" * KEY_LIMIT},
        {"ordering_key": "k" * KEY_LIMIT},
        {"priority": PRIORITY_LIMIT},
        {"priority": -PRIORITY_LIMIT},
        {"tags": [str(n) for n in range(TAGS_LIMIT)]},
        {"tags": ()},
        {"headers": {}},
        {"headers": {"a": "b" * (HEADERS_LIMIT - 1)}},
        {"schedule_at": datetime.max.replace(tzinfo=UTC)},
        {"expires_at": datetime.min.replace(tzinfo=UTC)},
    ],
    ids=str,
)
def test_the_bounds_themselves_are_allowed(options):
    words = dict(options)
    assert build(words.pop("type", "greet"), None, words, NOW, 1000).task.version == 1
