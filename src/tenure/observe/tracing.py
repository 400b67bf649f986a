"""OpenTelemetry: a span for each submit and each attempt, one trace across processes.

The trace context (W3C) travels in the headers of the task, so the span of an attempt is a child of its submit's,
whoever runs it and whenever. Names and attributes follow the messaging conventions, with the type of the task
where those have the destination: that is what people look for. Who samples, and where spans go, is for OpenTelemetry's own
settings to say.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tenure.errors import MissingExtra, RescheduleError
from tenure.observe.events import Execution, Interrupted, OnEnd, Subscriber
from tenure.observe.redaction import SECRETS, Redaction
from tenure.submission import HEADERS_LIMIT
from tenure.task import Task

try:
    from opentelemetry import context as current
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract, inject
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
except ModuleNotFoundError:
    raise MissingExtra("Tracing", "otel") from None

SYSTEM = "tenure"
PARENT = "traceparent"
UNSAMPLED = frozenset("02468ace")
"""The lowest bit of the flags, which end the header, says whether the trace is sampled."""
LENGTH = 55
"""Of such a header, in the version that there is."""


_NOTHING = Context()


class Tracing(Subscriber):
    """Makes spans with the given provider, or with the one that is set up for the whole process.

    `redact` are names of fields whose values are never told in the words of an exception; with `[]`, nothing is replaced.
    """

    def __init__(self, provider: TracerProvider | None = None, *, redact: Iterable[str] = SECRETS) -> None:
        self._tracer = trace.get_tracer("tenure", tracer_provider=provider)
        self._redacted = Redaction(redact)

    @contextlib.contextmanager
    def submitting(self, options: dict[str, Any], types: Sequence[str], tasks: Sequence[Task]) -> Iterator[None]:
        """A span around the submit, whose context goes into the headers of its tasks."""
        if not types:
            yield
            return
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "submit",
            "messaging.operation.type": "send",
        }
        name = "submit"
        if len(set(types)) == 1:
            name = f"submit {types[0]}"
            attributes["tenure.task.type"] = types[0]
        if len(types) == 1:
            attributes["messaging.destination.name"] = options.get("queue") or "default"
        else:
            attributes["messaging.batch.message_count"] = len(types)
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            carried: dict[str, str] = {}
            inject(carried)
            given = options.get("headers")
            # Headers that are none are for the submit to refuse.
            if given is None or isinstance(given, Mapping):
                options["headers"] = {**(given or {}), **_fitting(given or {}, carried)}
            try:
                yield
            except Exception as error:
                self._failed(span, error)
                raise
            # Tasks of a batch may have options of their own: only the answer tells where they went.
            if len({task.queue for task in tasks}) == 1:
                span.set_attribute("messaging.destination.name", tasks[0].queue)
            if len(tasks) == 1:
                span.set_attribute("messaging.message.id", tasks[0].id)

    def attempt_begins(self, context: Execution) -> OnEnd | None:
        """The span of an attempt is the current one while its handler runs, and ends with it."""
        task = context.task
        parent = task.headers.get(PARENT, "")
        if len(parent) == LENGTH and parent[-1] in UNSAMPLED:
            # Whoever submitted it was not sampled, so the attempt is not; what it calls may want to know that.
            unsampled = _Unsampled()
            unsampled.headers = task.headers
            current.attach(unsampled)
            return None
        last = task.history[-1]
        # Propagators other than W3C's have headers of other names.
        around = extract(task.headers, _NOTHING) if task.headers else _NOTHING
        span = self._tracer.start_span(
            f"process {task.type}",
            context=around,
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": task.queue,
                "messaging.message.id": task.id,
                "messaging.consumer.group.name": task.queue,
                "tenure.task.type": task.type,
                "tenure.task.attempt": last.attempt,
                "tenure.task.fence": task.fence,
                "tenure.worker.id": last.worker or "",
            },
        )
        current.attach(trace.set_span_in_context(span, around))
        return partial(self._end, span) if span.is_recording() else None

    def _end(self, span: Span, error: BaseException | None) -> None:
        try:
            if isinstance(error, Interrupted):
                # No failure, and no success either, as which a span with nothing on it would pass.
                span.set_attribute("tenure.task.interrupted", str(error))
            elif error is not None and not isinstance(error, RescheduleError):
                self._failed(span, error)
        finally:
            span.end()

    def _failed(self, span: Span, error: BaseException) -> None:
        span.set_attribute("error.type", type(error).__qualname__)
        if span.is_recording():
            words = self._redacted(str(error))
            told = {
                "exception.message": words,
                "exception.stacktrace": self._redacted("".join(traceback.format_exception(error))),
            }
            span.record_exception(error, attributes=told)
            span.set_status(Status(StatusCode.ERROR, words))


def _fitting(given: Mapping[str, str], carried: dict[str, str]) -> dict[str, str]:
    """What has room beside the producer's own headers, the trace first: observing a submit must not make it too large."""
    room = HEADERS_LIMIT - sum(_size(*pair) for pair in given.items())
    fitting = {}
    for name in sorted(carried, key=lambda name: name != PARENT):
        replaced = _size(name, given[name]) if name in given else 0
        if (size := _size(name, carried[name]) - replaced) <= room:
            fitting[name] = carried[name]
            room -= size
    return fitting


def _size(name: object, text: object) -> int:
    # Some may be no texts, or none that can be sent; the submit will say so.
    return len(f"{name}{text}".encode(errors="replace"))


class _Unsampled(Context):
    """What tasks carry whose submit was not sampled: read from their headers when somebody asks, and hardly anybody does."""

    __slots__ = ("headers",)
    headers: dict[str, str]

    def get(self, key: str, default: Any = None) -> Any:
        """As if it had been read at once."""
        self._read()
        return super().get(key, default)

    def copy(self) -> dict[str, object]:
        """What others begin their own with."""
        self._read()
        return super().copy()

    def _read(self) -> None:
        if not self:
            dict.update(self, extract(self.headers, _NOTHING))
