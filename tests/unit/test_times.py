"""Rule 3: microseconds survive, and stored times sort as time does."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.errors import InvalidInput
from tenure.times import FOREVER, after, before, from_micros, from_text, seconds, to_micros, to_text, utc

MOMENTS = st.datetimes(timezones=st.just(UTC))
FIRST = datetime.min.replace(tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(MOMENTS)
@example(FIRST)
@example(FOREVER)
@example(EPOCH)
@example(EPOCH - timedelta(microseconds=1))
def test_numbers_and_texts_keep_every_microsecond(moment):
    assert from_micros(to_micros(moment)) == moment
    assert from_text(to_text(moment)) == moment
    assert len(to_text(moment)) == 27


@given(MOMENTS, MOMENTS)
@example(FIRST, FOREVER)
@example(datetime(999, 12, 31, tzinfo=UTC), datetime(1000, 1, 1, tzinfo=UTC))
def test_numbers_and_texts_sort_as_time_does(one, other):
    assert (to_micros(one) < to_micros(other)) is (one < other)
    assert (to_text(one) < to_text(other)) is (one < other)


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-23, 23))  # noqa: DTZ001 - naive on purpose
def test_naive_times_are_utc_and_aware_ones_are_converted(naive, hours):
    assert utc(naive) == naive.replace(tzinfo=UTC)
    zone = timezone(timedelta(hours=hours))
    aware = naive.replace(tzinfo=zone)
    assert utc(aware) == aware
    assert utc(aware).tzinfo is UTC
    assert to_text(aware) == to_text(utc(aware))
    assert from_text(aware.isoformat()) == aware


def test_the_forms():
    moment = datetime(2026, 1, 28, 17, 0, 0, 5, tzinfo=UTC)
    assert to_text(moment) == "2026-01-28T17:00:00.000005Z"
    assert to_text(FIRST) == "0001-01-01T00:00:00.000000Z"
    assert to_micros(EPOCH) == 0
    assert to_micros(EPOCH + timedelta(seconds=1)) == 1_000_000


def test_a_naive_time_is_utc_wherever_the_machine_stands():
    code = "from datetime import datetime; from tenure.times import to_text; print(to_text(datetime(2026, 1, 28)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TZ": "Pacific/Auckland"},
        timeout=60,
    )
    assert done.stdout.strip() == "2026-01-28T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-28T17:00:00Z", datetime(2026, 1, 28, 17, tzinfo=UTC)),
        ("2026-01-28T18:00:00+01:00", datetime(2026, 1, 28, 17, tzinfo=UTC)),
        ("2026-01-28T17:00:00", datetime(2026, 1, 28, 17, tzinfo=UTC)),
        ("2026-01-28 17:00", datetime(2026, 1, 28, 17, tzinfo=UTC)),
        ("2026-01-28", datetime(2026, 1, 28, tzinfo=UTC)),
    ],
)
def test_people_write_times_in_several_ways(text, moment):
    assert from_text(text) == moment


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-13-01", "2026-01-28T25:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"],
)
def test_what_is_no_time_is_refused_with_an_example(text):
    with pytest.raises(InvalidInput) as refusal:
        from_text(text)
    assert str(refusal.value) == f"{text!r} is no time. Write it like 2026-01-28T17:00:00Z."


@pytest.mark.parametrize(
    ("value", "duration"),
    [
        (0, timedelta(0)),
        (60, timedelta(minutes=1)),
        (0.000001, timedelta(microseconds=1)),
        (timedelta(days=3), timedelta(days=3)),
    ],
)
def test_a_duration_is_seconds_or_a_timedelta(value, duration):
    assert seconds(value, "delay") == duration


def test_a_duration_may_have_another_unit():
    assert seconds(1.5, "days", timedelta(days=1)) == timedelta(hours=36)
    assert seconds(timedelta(hours=1), "days", timedelta(days=1)) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "delay must be a number of seconds or a timedelta, not True."),
        ("60", "delay must be a number of seconds or a timedelta, not '60'."),
        (None, "delay must be a number of seconds or a timedelta, not None."),
        (float("nan"), "delay=nan is no duration that a calendar can hold."),
        (float("inf"), "delay=inf is no duration that a calendar can hold."),
        (1e300, "delay=1e+300 is no duration that a calendar can hold."),
        (-1, "delay=-1 is negative. Use zero or more."),
        (timedelta(microseconds=-1), "is negative. Use zero or more."),
    ],
)
def test_what_is_no_duration_is_refused(value, words):
    with pytest.raises(InvalidInput) as refusal:
        seconds(value, "delay")
    assert words in str(refusal.value)


def test_no_calendar_goes_back_before_the_first_year():
    assert before(EPOCH, timedelta(days=1)) == datetime(1969, 12, 31, tzinfo=UTC)
    assert before(EPOCH, timedelta.max) == FIRST


def test_no_calendar_goes_past_the_year_9999():
    assert after(EPOCH, timedelta(days=1), "ttl") == datetime(1970, 1, 2, tzinfo=UTC)
    with pytest.raises(InvalidInput, match=r"^ttl=.* leads past the year 9999\.$"):
        after(FOREVER, timedelta(microseconds=1), "ttl")
