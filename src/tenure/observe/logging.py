"""Log lines: one for each change of a task's state, with its ids as fields, through the standard library.

A failed attempt, one whose lease has lapsed, and one whose claim was lost are told by whoever finds out, whether anybody subscribed or not. The
fields stand on the record (`extra`), so every formatter sees them: `JsonLines` here, or structlog's with `ExtraAdder`, whose `event` is the message.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from tenure.observe.events import (
    Archived,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Expired,
    Failed,
    Lapsed,
    Released,
    Requeued,
    Rescheduled,
    Submitted,
    Subscriber,
    TaskEvent,
    latest,
)
from tenure.task import Task, TaskStatus

_log = logging.getLogger("tenure.events")
TASKS = "tenure.task"
"""The logger of what handlers say."""

LEVELS: dict[type[TaskEvent], int] = {
    Submitted: logging.DEBUG,
    Claimed: logging.DEBUG,
    Archived: logging.DEBUG,
    Completed: logging.INFO,
    Rescheduled: logging.INFO,
    Released: logging.INFO,
    CancelRequested: logging.INFO,
    Cancelled: logging.INFO,
    Requeued: logging.INFO,
    Expired: logging.WARNING,
}

_WORDS: dict[type[TaskEvent], str] = {
    Submitted: "was submitted",
    Claimed: "was claimed",
    Archived: "was archived",
    Completed: "completed",
    Rescheduled: "was rescheduled",
    Released: "was given back",
    CancelRequested: "was asked to stop",
    Cancelled: "was cancelled",
    Requeued: "was put back",
    Expired: "expired",
}


_SAID = {
    kind: (logging.getLevelName(level).lower(), kind.__name__.lower(), f"task {_WORDS[kind]}")
    for kind, level in LEVELS.items()
}
"""What the lines of a kind have in common: level, what happened, message. The ids are fields beside it: a sentence would only repeat them."""
_STATUS = {status: status.value for status in TaskStatus}
"""As plain text, which is written faster than a member of an enumeration."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
FIELDS = ("what", "task_id", "task_type", "queue", "attempt", "status", "worker_id", "seconds", "why")


class Line(msgspec.Struct, omit_defaults=True, gc=False):
    """A line that is yet to be written."""

    at: datetime
    level: str
    logger: str
    message: str
    what: str
    task_id: str
    task_type: str
    queue: str
    attempt: int
    status: str
    worker_id: str | None = None
    seconds: float | None = None
    why: str | None = None


class Logging(Subscriber):
    """Writes a line for each change. Claims and submits are for debugging, ends are information, trouble is a warning."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or _log

    def happened(self, events: Sequence[TaskEvent]) -> None:  # noqa: D102 - as the base says
        logger = self._logger
        wanted = {kind for kind, level in LEVELS.items() if logger.isEnabledFor(level)}
        if wanted.isdisjoint(map(type, events)):
            return
        told = [event for event in events if type(event) in wanted]
        now = datetime.now(UTC)
        if (handler := _only_json(logger)) is not None:
            handler.write_lines([self._line(event, now) for event in told])
            return
        make = logging.getLogRecordFactory()
        for event in told:
            line = self._line(event, now)
            # The caller of a logger is always this line: looking for it would cost more than the line.
            level = logging.getLevelName(line.level.upper())
            text = sentence(event.task, _WORDS[type(event)])
            record = make(logger.name, level, __file__, 0, text, (), None)
            record.__dict__.update({field: getattr(line, field) for field in FIELDS})
            logger.handle(record)

    def _line(self, event: TaskEvent, now: datetime) -> Line:
        task = event.task
        last = task.history[-1]
        level, name, message = _SAID[type(event)]
        if type(event) is Completed:
            attempt, seconds = last.attempt, event.seconds
        else:
            attempt, seconds = attempt_of(task), None
        return Line(
            now, level, self._logger.name, message, name, task.id, task.type, task.queue,
            attempt, _STATUS[task.status], last.worker, seconds, last.why,
        )  # fmt: skip


def attempt_of(task: Task) -> int:
    """The attempt in which something happened last. One that was given back is counted no more, and yet it ran."""
    last = task.history[-1]
    if last.worker is not None:
        for event in reversed(task.history):
            if event.what == "claimed":
                return event.attempt
    return last.attempt


def about(task: Task) -> dict[str, Any]:
    """The fields that every line about a task carries."""
    last = task.history[-1]
    return {
        "task_id": task.id,
        "task_type": task.type,
        "queue": task.queue,
        "attempt": attempt_of(task),
        "worker_id": last.worker,
        "status": task.status.value,
    }


def sentence(task: Task, words: str) -> str:
    """A line for people: which task, what happened, in which attempt, on which worker, and why."""
    last = task.history[-1]
    where = f" on {last.worker}" if last.worker else ""
    which = f" in attempt {attempt}" if (attempt := attempt_of(task)) else ""
    why = f": {last.why}" if last.why and last.number > 1 else ""
    return one_line(f"task {task.id} ({task.type}) {words}{which}{where}{why}")


def one_line(text: str) -> str:
    r"""The text with its line breaks and other control characters as escapes, so that an error cannot write lines of its own.

    >>> print(one_line("no\nERROR all is lost"))
    no\nERROR all is lost
    """
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class TextLines(logging.Formatter):
    """For people: one line for each record, with the task whose handler says it. Only a traceback has lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: D102, N802 - as the base says
        line = super().formatMessage(record)
        if record.name == TASKS and hasattr(record, "task_id"):
            line += " [{task_type} {task_id} attempt {attempt}]".format_map(vars(record))
        return one_line(line)

    def formatException(self, ei: Any) -> str:  # noqa: D102, N802 - as the base says
        return _lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: D102, N802 - as the base says
        return _lines(super().formatStack(stack_info))


def _lines(text: str) -> str:
    """The text with its line breaks as they are, and what else it may do to a terminal as escapes."""
    return "\n".join(map(one_line, text.split("\n")))


def tell_failure(failed: Failed) -> None:
    """The line of a failed attempt: a warning while it is tried again, an error when the task is dead."""
    task, what = failed.task, type(failed).__name__.lower()
    level = logging.ERROR if failed.dead else logging.WARNING
    text = f"{sentence(task, what)}; now {task.status.value}"
    fields = {"what": what, "reason": failed.reason, "seconds": failed.seconds, "why": task.history[-1].why}
    _log.log(level, "%s", text, extra={**about(task), **fields})


def tell_lapses(tasks: Iterable[Task]) -> None:
    """The lines of those among them whose lease has lapsed: nobody else is there to tell how that attempt ended."""
    for task in tasks:
        if isinstance(event := latest(task), Lapsed):
            tell_failure(event)


def _only_json(logger: logging.Logger | None) -> JsonHandler | None:
    """The handler, if it is the only one that hears this logger and nobody filters."""
    found: JsonHandler | None = None
    while logger is not None:
        if logger.filters or len(logger.handlers) > 1:
            return None
        for handler in logger.handlers:
            if found is not None or type(handler) is not JsonHandler or handler.filters or handler.level:
                return None
            found = handler
        logger = logger.parent if logger.propagate else None
    return found


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "at", "level", "logger"}
_encoder = msgspec.json.Encoder(enc_hook=str)
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines


class JsonLines(logging.Formatter):
    """One JSON object per line, with every field of the record that is not the library's own."""

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102 - as the base says
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        own = record.__dict__.items()
        line |= {name: value for name, value in own if name not in _STANDARD and value is not None}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        try:
            return _encode(line).decode()
        except Exception:
            return _encode({_unicode(str(name)): _writable(value) for name, value in line.items()}).decode()


def _writable(value: Any) -> Any:
    """The value if it can stand in JSON, or words for it: one field must not cost the line."""
    try:
        _encode(value)
    except Exception:
        return _unicode(value if isinstance(value, str) else _words(value))
    return value


def _words(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"({type(value).__name__}, which cannot be shown)"


def _unicode(text: str) -> str:
    """A file name may hold bytes that are no Unicode."""
    return text.encode(errors="backslashreplace").decode()


class JsonHandler(logging.StreamHandler[TextIO]):
    """A handler that writes JSON lines, those of many events at once in one piece."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self.setFormatter(JsonLines())

    def write_lines(self, lines: Sequence[Line]) -> None:
        """What `emit` does for each, in one step."""
        self.acquire()
        try:
            self.stream.write(_encode_lines(lines).decode())
            self.flush()
        finally:
            self.release()
