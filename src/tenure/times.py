"""Instants: aware UTC datetimes in memory, and two sortable forms for storage.

Anything a store sorts or compares is either an integer of microseconds or a text of
fixed width; both keep every microsecond and order as time does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from tenure.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
FOREVER = datetime.max.replace(tzinfo=UTC)
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time in a stored record: one without a zone could be compared with no other."""


def utc(moment: datetime) -> datetime:
    """Naive datetimes are read as UTC; aware ones are converted."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def to_micros(moment: datetime) -> int:
    """The sortable number of an instant, exact to the microsecond."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The instant behind `to_micros`."""
    return EPOCH + timedelta(microseconds=micros)


def to_text(moment: datetime) -> str:
    """The sortable text of an instant: always 27 characters, always UTC.

    >>> to_text(datetime(2026, 1, 28, 17, tzinfo=UTC))
    '2026-01-28T17:00:00.000000Z'
    """
    return utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def from_text(text: str) -> datetime:
    """Read an instant that a person or a program wrote in ISO 8601.

    >>> from_text("2026-01-28T17:00:00Z") == datetime(2026, 1, 28, 17, tzinfo=UTC)
    True
    """
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        msg = f"{text!r} is no time. Write it like 2026-01-28T17:00:00Z."
        raise InvalidInput(msg) from None


def seconds(value: float | timedelta, field: str, unit: timedelta = SECOND) -> timedelta:
    """A duration that a caller gave as seconds (or in another unit) or as a timedelta; never negative."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        msg = f"{field} must be a number of seconds or a timedelta, not {value!r}."
        raise InvalidInput(msg)
    try:
        duration = value if isinstance(value, timedelta) else value * unit
    except (OverflowError, ValueError):
        msg = f"{field}={value!r} is no duration that a calendar can hold."
        raise InvalidInput(msg) from None
    if duration < timedelta(0):
        msg = f"{field}={value!r} is negative. Use zero or more."
        raise InvalidInput(msg)
    return duration


def before(moment: datetime, duration: timedelta) -> datetime:
    """`moment - duration`, as far back as a calendar goes."""
    try:
        return moment - duration
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def after(moment: datetime, duration: timedelta, field: str) -> datetime:
    """`moment + duration`, or a clear refusal when no calendar goes that far."""
    try:
        return moment + duration
    except OverflowError:
        msg = f"{field}={duration!r} leads past the year 9999."
        raise InvalidInput(msg) from None
