"""Times and durations as people write and read them."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tenure.task import Event, Task

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def duration(text: str) -> timedelta:
    """A duration: a number with a unit, several of them, or plain seconds.

    >>> duration("30s"), duration("1h30m"), duration("2w"), duration("90")
    (datetime.timedelta(seconds=30), datetime.timedelta(seconds=5400), datetime.timedelta(days=14), datetime.timedelta(seconds=90))
    """
    compact = text.strip().lower().replace(" ", "")
    try:
        if re.fullmatch(r"\d+(\.\d+)?", compact):
            return timedelta(seconds=float(compact))
        parts = _PART.findall(compact)
        if parts and "".join(number + unit for number, unit in parts) == compact:
            return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        pass
    msg = f"{text!r} is no duration. Write it like 30s, 5m, 1h30m, 7d or 2w."
    raise typer.BadParameter(msg)


def moment(text: str) -> datetime:
    """A point in time in ISO 8601; without a zone it is UTC."""
    from tenure import times
    from tenure.errors import InvalidInput

    try:
        return times.from_text(text)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def duration_option(help: str, *names: str) -> Any:  # noqa: A002 - typer's name
    """An option that takes a duration."""
    return typer.Option(*names, parser=duration, metavar="DURATION", show_default=False, help=help)


def moment_option(help: str, *names: str) -> Any:  # noqa: A002
    """An option that takes a point in time."""
    return typer.Option(*names, parser=moment, metavar="TIME", show_default=False, help=help)


def at(instant: datetime) -> str:
    """A point in time, to the millisecond where it is not a full second.

    >>> at(datetime.fromisoformat("2026-01-28T17:00:00+00:00"))
    '2026-01-28T17:00:00Z'
    """
    precision = "milliseconds" if instant.microsecond else "seconds"
    return instant.isoformat(timespec=precision).replace("+00:00", "Z")


def relative(instant: datetime, now: datetime) -> str:
    """How far a point in time is from now: `in 2h 30m`, or `5m ago`."""
    from tenure.explain import human

    away = (instant - now).total_seconds()
    if away > 0:
        return f"in {human(timedelta(seconds=math.ceil(away)))}"
    return f"{human(timedelta(seconds=int(-away)))} ago"


def at_and_relative(instant: datetime, now: datetime) -> str:
    """Both: `2026-01-28T17:00:00Z (in 2h 30m)`."""
    return f"{at(instant)} ({relative(instant, now)})"


def age(seconds: float | None) -> str:
    """An age in words; a dash where there is none."""
    from tenure.explain import human

    return "-" if seconds is None else human(timedelta(seconds=int(seconds)))


def first_line(text: str | None, limit: int = 80) -> str:
    """The beginning of a message, for a table."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


def event_line(event: Event) -> str:
    """One version of a task, in a line.

    An ending says when: `Version 2: expired (expired_at: …)`.
    """
    ending = event.what == event.status.value
    parts = [f"{event.what}_at: {at(event.at)}"] if ending else [event.what]
    if event.why:
        parts.append(_short_times(event.why))
    if event.attempt and event.what in ("claimed", "failed", "lapsed"):
        parts.append(f"attempt {event.attempt}")
    if event.worker:
        parts.append(f"worker {event.worker}")
    if not ending:
        parts.append(f"at: {at(event.at)}")
    return f"Version {event.number}: {event.status} ({', '.join(parts)})"


def event_dict(task: Task, event: Event) -> dict[str, Any]:
    """An event as JSON, every field present."""
    import msgspec

    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    about = {"task_id": task.id, "task_type": task.type, "queue": task.queue}
    return {**about, **msgspec.to_builtins(fields)}


def _short_times(text: str) -> str:
    """Stored times have six decimals for sorting; nobody wants to read zeros."""
    return re.sub(r"(\d\d:\d\d:\d\d)(?:\.(\d{3})\d{3})?Z", _shorter, text)


def _shorter(found: re.Match[str]) -> str:
    clock, milliseconds = found.groups()
    return f"{clock}Z" if milliseconds in (None, "000") else f"{clock}.{milliseconds}Z"


def task_fields(task: Task, now: datetime, why: str | None = None) -> list[tuple[str, str]]:
    """Everything a person wants to know about a task, in the order of interest; what is empty is left out."""
    from tenure.payload import NULL

    fields: list[tuple[str, object]] = [
        ("id", task.id),
        ("type", task.type),
        ("queue", task.queue),
        ("status", task.status.value),
        ("why", _short_times(why) if why else None),
        ("attempts", f"{task.attempts} of {limit}" if (limit := task.limit or task.max_attempts) else task.attempts),
        ("progress", _progress(task)),
        ("last_error", task.last_error),
        ("created_at", at_and_relative(task.created_at, now)),
        ("available_at", at_and_relative(task.available_at, now)),
        ("expires_at", task.expires_at and at_and_relative(task.expires_at, now)),
        ("started_at", task.started_at and at_and_relative(task.started_at, now)),
        ("lease_expires_at", task.lease_expires_at and at_and_relative(task.lease_expires_at, now)),
        ("worker", task.worker_id),
    ]
    for name in ("completed_at", "failed_at", "expired_at", "cancelled_at", "archived_at"):
        ended_at: datetime | None = getattr(task, name)
        fields.append((name, ended_at and at_and_relative(ended_at, now)))
    fields += [
        ("priority", task.priority or None),
        ("ordering_key", task.ordering_key),
        ("idempotency_key", task.idempotency_key),
        ("tags", ", ".join(task.tags) or None),
        ("timeout", task.timeout and f"{task.timeout:g} s"),
        ("reschedules", task.reschedules or None),
        ("fence", task.fence or None),
        ("version", task.version),
        ("input", bytes(task.input_json).decode()),
        ("output", None if task.output_json == NULL else bytes(task.output_json).decode()),
    ]
    return [(name, str(value)) for name, value in fields if value is not None]


def _progress(task: Task) -> str | None:
    if task.progress is None:
        return None
    current, total = task.progress.current, task.progress.total
    share = f"{current:g}" if total is None else f"{current:g} of {total:g}"
    return f"{share} {task.progress.message or ''}".rstrip()
