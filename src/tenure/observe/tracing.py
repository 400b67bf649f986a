"""OpenTelemetry: a span for each submit and each attempt, one trace across processes.

The trace context (W3C) travels in the headers of the task, so the span of an attempt is a child of its submit's,
whoever runs it and whenever. Names and attributes follow the messaging conventions, with the type of the task
where those have the destination: that is what people look for. Who samples, and where spans go, is for OpenTelemetry's own
settings to say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tenure.errors import MissingExtra, RescheduleError
from tenure.observe.events import Execution, Subscriber, keep, kept
from tenure.task import Task

try:
    from opentelemetry import context as current
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.propagate import extract, inject
    from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
except ModuleNotFoundError:
    raise MissingExtra("Tracing", "otel") from None

SYSTEM = "tenure"
PARENT, BAGGAGE = "traceparent", "baggage"
UNSAMPLED = tuple("02468ace")
"""The lowest bit of the flags, which end the header, says whether the trace is sampled."""


_NOTHING = Context()


class Tracing(Subscriber):
    """Makes spans with the given provider, or with the one that is set up for the whole process."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("tenure", tracer_provider=provider)

    @contextlib.contextmanager
    def submitting(self, options: dict[str, Any], types: Sequence[str], tasks: Sequence[Task]) -> Iterator[None]:
        """A span around the submit, whose context goes into the headers of its tasks."""
        destination = options.get("queue") or "default"
        name = types[0] if len(set(types)) == 1 else destination
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "submit",
            "messaging.operation.type": "send",
            "messaging.destination.name": destination,
            "tenure.task.type": name,
        }
        if len(types) > 1:
            attributes["messaging.batch.message_count"] = len(types)
        # What is raised is recorded on the span, and marks it as failed.
        with self._tracer.start_as_current_span(
            f"submit {name}", kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            carried: dict[str, str] = {}
            inject(carried)
            given = options.get("headers")
            # Headers that are none are for the submit to refuse.
            if given is None or isinstance(given, Mapping):
                options["headers"] = {**(given or {}), **carried}
            yield
            if len(tasks) == 1:
                span.set_attribute("messaging.message.id", tasks[0].id)

    def attempt_begins(self, context: Execution) -> None:
        """The span of an attempt is the current one while its handler runs."""
        task = context.task
        parent = task.headers.get(PARENT, "")
        if parent.endswith(UNSAMPLED):
            # Whoever submitted it was not sampled, so the attempt is not; what it calls may want to know that.
            around = extract(task.headers) if BAGGAGE in task.headers else _NOTHING
            current.attach(trace.set_span_in_context(_Unsampled(task.headers), around))
            return
        last = task.history[-1]
        around = extract(task.headers) if parent else _NOTHING
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
        keep(context, "span", span)

    def attempt_ends(self, context: Execution, error: BaseException | None) -> None:
        """The span ends with its handler; an exception is recorded on it."""
        span: Span | None = kept(context, "span")
        if span is None or not span.is_recording():
            return
        if error is not None and not isinstance(error, RescheduleError):
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()


class _Unsampled(NonRecordingSpan):
    """The context of a submit that was not sampled, read from the headers only when somebody asks."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._read: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        """The context that the task carries."""
        if self._read is None:
            self._read = trace.get_current_span(extract(self._headers)).get_span_context()
        return self._read
