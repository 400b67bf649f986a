"""Traces: a span for the submit and one for each attempt, connected through what the task carries."""

import asyncio
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry import baggage, propagate, trace
from opentelemetry import context as current
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import BaseModel, Field

from tenure import IdempotencyConflict, InvalidInput, RetryPolicy, Worker, connect
from tenure.observe.tracing import Tracing
from tenure.queue import Queue
from tenure.stores.memory import MemoryStore
from tenure.submission import HEADERS_LIMIT


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


@pytest.fixture
def traced(queue, provider):
    return queue.observe(Tracing(provider))


def worker_on(queue):
    worker = Worker(queue, worker_id="w1", retry=RetryPolicy(base=0, jitter=0, max_attempts=2))

    @worker.task("greet")
    async def greet(input): ...

    @worker.task("flaky")
    async def flaky(input, context):
        if context.attempt == 1:
            raise ValueError("not yet")

    return worker


async def test_an_attempt_is_a_child_of_its_submit(traced, exporter, provider):
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        task = await traced.submit("greet", headers={"tenant": "a"})
    await worker_on(traced).run(until_idle=True)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    submit, process = spans["submit greet"], spans["process greet"]
    assert submit.parent.span_id == request.get_span_context().span_id
    assert process.parent.span_id == submit.context.span_id
    assert process.context.trace_id == request.get_span_context().trace_id
    assert (submit.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert task.headers["tenant"] == "a"
    assert process.status.status_code is not StatusCode.ERROR


async def test_the_attributes_follow_the_messaging_conventions(traced, exporter):
    task = await traced.submit("greet", queue="mail")
    worker = worker_on(traced)
    worker.queues = ("mail",)
    await worker.run(until_idle=True)
    submit, process = exporter.get_finished_spans()
    common = {"messaging.system": "tenure", "messaging.destination.name": "mail", "messaging.message.id": task.id}
    assert common.items() <= submit.attributes.items()
    assert common.items() <= process.attributes.items()
    assert [submit.attributes["messaging.operation.type"], process.attributes["messaging.operation.type"]] == [
        "send",
        "process",
    ]
    assert (process.attributes["tenure.task.attempt"], process.attributes["tenure.worker.id"]) == (1, "w1")


async def test_every_attempt_has_a_span_and_a_failure_is_recorded_on_it(traced, exporter):
    await traced.submit("flaky")
    await worker_on(traced).run(until_idle=True)
    submit, first, second = exporter.get_finished_spans()
    assert [first.attributes["tenure.task.attempt"], second.attributes["tenure.task.attempt"]] == [1, 2]
    assert first.parent.span_id == second.parent.span_id == submit.context.span_id
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert first.attributes["error.type"] == "ValueError"
    (event,) = first.events
    assert (event.name, event.attributes["exception.message"]) == ("exception", "not yet")
    assert "Traceback" in event.attributes["exception.stacktrace"]


async def test_an_attempt_that_was_stopped_has_a_span_that_tells_why(traced, exporter):
    worker, begun = Worker(traced, grace=0), asyncio.Event()

    @worker.task("greet")
    async def greet(input):
        begun.set()
        await asyncio.Event().wait()

    await traced.submit("greet")
    run = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    await run
    span = exporter.get_finished_spans()[-1]
    assert (span.name, span.status.status_code) == ("process greet", StatusCode.UNSET)
    assert span.attributes["tenure.task.interrupted"] == "shut down"


class Pay(BaseModel):
    password: str = Field(min_length=40)


def told_by(spans):
    """All words that were recorded on spans."""
    events = [event.attributes for span in spans for event in span.events]
    return [span.status.description for span in spans] + [
        words for event in events for words in (event["exception.message"], event["exception.stacktrace"])
    ]


async def test_secrets_in_the_words_of_an_exception_are_not_recorded(traced, exporter):
    worker = Worker(traced, retry=None)

    @worker.task("breaks")
    async def breaks(input):
        raise ValueError(f"no answer from postgres://u:{input}@h/db, token={input}")

    @worker.task("pay")
    async def pay(input: Pay): ...

    await traced.submit("breaks", "hunter2")
    await traced.submit("pay", {"password": "hunter2"})
    with pytest.raises(InvalidInput):
        await traced.submit("greet", queue="password=hunter2" * 100)
    await worker.run(until_idle=True)
    failed = [span for span in exporter.get_finished_spans() if span.status.status_code is StatusCode.ERROR]
    assert len(failed) == 3
    assert "hunter2" not in str(told_by(failed))
    assert any(
        "ValueError: no answer from postgres://u:[redacted]@h/db, token=[redacted]" in words
        for words in told_by(failed)
    )


async def test_words_of_exceptions_are_recorded_as_they_are_if_asked(queue, exporter, provider):
    queue.observe(Tracing(provider, redact=[]))
    worker = Worker(queue, retry=None)

    @worker.task("breaks")
    async def breaks(input):
        raise ValueError(f"token={input}")

    await queue.submit("breaks", "hunter2")
    await worker.run(until_idle=True)
    assert exporter.get_finished_spans()[-1].status.description == "token=hunter2"


class OneHeader(TextMapPropagator):
    """Carries a trace in a header of its own, like that of Zipkin."""

    fields = frozenset({"b3"})

    def inject(self, carrier, context=None, setter=None):
        span = trace.get_current_span(context).get_span_context()
        carrier["b3"] = f"{span.trace_id:032x}-{span.span_id:016x}-1"

    def extract(self, carrier, context=None, getter=None):
        if "b3" not in carrier:
            return context
        trace_id, span_id, _ = carrier["b3"].split("-")
        parent = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(1))
        return trace.set_span_in_context(trace.NonRecordingSpan(parent), context)


async def test_a_trace_in_headers_of_another_propagator_is_gone_on_with(traced, exporter, monkeypatch):
    monkeypatch.setattr(propagate, "get_global_textmap", OneHeader)
    await traced.submit("greet")
    await traced.submit("greet", headers={"tenant": "a"})
    await worker_on(traced).run(until_idle=True)
    submits = [span for span in exporter.get_finished_spans() if span.name == "submit greet"]
    attempts = [span for span in exporter.get_finished_spans() if span.name == "process greet"]
    assert [span.parent.span_id for span in attempts] == [span.context.span_id for span in submits]


@pytest.mark.parametrize("plain", [True, False])
async def test_what_a_handler_does_is_a_child_of_its_own_attempt(traced, exporter, provider, plain):
    tracer = provider.get_tracer("test")
    worker = Worker(traced, concurrency=5)
    ready = asyncio.Event()

    if plain:

        @worker.task("nested")
        def nested(input):
            with tracer.start_as_current_span(f"inner {input}"):
                pass
    else:

        @worker.task("nested")
        async def nested(input):
            if input == 4:
                ready.set()
            await ready.wait()
            with tracer.start_as_current_span(f"inner {input}"):
                pass

    for number in range(5):
        await traced.submit("nested", number)
    await worker.run(until_idle=True)
    spans = exporter.get_finished_spans()
    process = {span.context.span_id for span in spans if span.name == "process nested"}
    inner = {span.parent.span_id for span in spans if span.name.startswith("inner")}
    assert len(inner) == 5
    assert inner == process


async def test_a_batch_is_one_span_and_every_task_carries_it(traced, exporter):
    tasks = await traced.submit_many([("greet", 1), ("greet", 2, {"headers": {"own": "x"}})])
    (span,) = exporter.get_finished_spans()
    assert span.attributes["messaging.batch.message_count"] == 2
    assert len({task.headers["traceparent"] for task in tasks}) == 1
    assert tasks[1].headers["own"] == "x"


async def test_a_batch_of_several_types_and_queues_says_only_what_holds_for_all(traced, exporter):
    await traced.submit_many([("greet", 1), ("flaky", 1, {"queue": "mail"})])
    await traced.submit_many([("greet", 1), ("greet", 2, {"queue": "mail"})])
    await traced.submit_many([("greet", 1, {"queue": "mail"}), ("flaky", 1, {"queue": "mail"})])
    told = [
        (span.name, span.attributes.get("tenure.task.type"), span.attributes.get("messaging.destination.name"))
        for span in exporter.get_finished_spans()
    ]
    assert told == [("submit", None, None), ("submit greet", "greet", None), ("submit", None, "mail")]


async def test_an_empty_batch_makes_no_span(traced, exporter):
    assert await traced.submit_many([]) == []
    assert exporter.get_finished_spans() == ()


async def test_a_submit_that_is_refused_is_a_span_that_failed(traced, exporter):
    await traced.submit("greet", 1, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await traced.submit("greet", 2, idempotency_key="k")
    refused = exporter.get_finished_spans()[-1]
    assert refused.status.status_code is StatusCode.ERROR
    assert refused.attributes["error.type"] == "IdempotencyConflict"
    assert [event.name for event in refused.events] == ["exception"]
    with pytest.raises(InvalidInput, match="headers must map strings to strings"):
        await traced.submit("greet", headers="no")


async def test_what_was_not_sampled_at_the_submit_is_not_sampled_later(queue, exporter, provider):
    off = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    queue.observe(Tracing(off))
    task = await queue.submit("seen")
    assert int(task.headers["traceparent"][-1], 16) % 2 == 0
    queue.events.subscribers = ()
    queue.observe(Tracing(provider))
    worker, seen = Worker(queue), []

    @worker.task("seen")
    async def handler(input):
        seen.append(trace.get_current_span().get_span_context())

    await worker.run(until_idle=True)
    assert exporter.get_finished_spans() == ()
    assert f"{seen[0].trace_id:032x}" == task.headers["traceparent"].split("-")[1]
    assert not seen[0].trace_flags.sampled


class Collector(BaseHTTPRequestHandler):
    """Reads what a collector would."""

    received = None

    def do_POST(self):
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, request))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_): ...


async def test_spans_of_two_processes_arrive_at_a_collector_as_one_trace(tmp_path):
    received = []
    server = HTTPServer(("127.0.0.1", 0), type("Mine", (Collector,), {"received": received}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url, endpoint = f"sqlite:///{tmp_path}/jobs.db", f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        await asyncio.to_thread(_produce_elsewhere, url, endpoint)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint)))
        async with connect(url) as queue:
            queue.observe(Tracing(provider))
            await worker_on(queue).run(until_idle=True)
        provider.shutdown()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert {path for path, _ in received} == {"/v1/traces"}
    spans = {
        span.name: span
        for _, request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert spans["process greet"].parent_span_id == spans["submit greet"].span_id
    assert spans["process greet"].trace_id == spans["submit greet"].trace_id


PRODUCER = """
import asyncio, sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from tenure import connect
from tenure.observe.tracing import Tracing

async def main(url, endpoint):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint)))
    async with connect(url) as queue:
        queue.observe(Tracing(provider))
        await queue.submit("greet")
    provider.shutdown()

asyncio.run(main(*sys.argv[1:]))
"""


def _produce_elsewhere(url, endpoint):
    subprocess.run([sys.executable, "-c", PRODUCER, url, endpoint], check=True, timeout=60)


@pytest.mark.parametrize("headers", [{}, {"traceparent": "none"}, {"traceparent": "00-0-0-0"}])
async def test_a_task_without_a_trace_begins_one_of_its_own(queue, exporter, provider, headers):
    """Also when it is started by the end of another attempt, and when what it carries is no trace."""
    worker = Worker(queue, concurrency=1)
    worker.task("greet")(lambda _: None)
    await queue.submit_many([("greet", number) for number in range(5)], headers=headers)
    queue.observe(Tracing(provider))
    await worker.run(until_idle=True)
    spans = exporter.get_finished_spans()
    assert [span.parent for span in spans] == [None] * 5
    assert len({span.context.trace_id for span in spans}) == 5


@pytest.mark.parametrize(
    ("own", "carried"), [(HEADERS_LIMIT - 10, set()), (9_000, {"traceparent"}), (1_000, {"traceparent", "baggage"})]
)
async def test_a_trace_makes_no_submit_too_large(traced, own, carried):
    """What has no room beside the producer's own headers is left out, the baggage first."""
    token = current.attach(baggage.set_baggage("a", "x" * 4_000, baggage.set_baggage("b", "x" * 4_000)))
    try:
        task = await traced.submit("greet", headers={"own": "x" * own})
    finally:
        current.detach(token)
    assert set(task.headers) == {"own", *carried}


async def test_a_header_of_the_producer_that_cannot_be_replaced_stays_and_takes_its_room(traced):
    """Baggage that is longer than the producer's own is left out, and the trace has the room that is left."""
    own = {"own": "x" * 9_000, "baggage": "y" * (HEADERS_LIMIT - 9_000 - len("ownbaggage"))}
    token = current.attach(baggage.set_baggage("a", "x" * 4_000, baggage.set_baggage("b", "x" * 4_000)))
    try:
        assert (await traced.submit("greet", headers=own)).headers == own
        own["own"] = "x" * 8_000
        assert (await traced.submit("greet", headers=own)).headers["baggage"].startswith("b=x")
        own["own"] = "x" * 8_900
        task = await traced.submit("greet", headers=own)
    finally:
        current.detach(token)
    assert own.items() < task.headers.items()
    assert set(task.headers) == {"own", "baggage", "traceparent"}


def current_span():
    return trace.get_current_span().get_span_context()


@pytest.fixture
async def unsampled(queue):
    """A queue whose submits are not sampled."""
    return queue.observe(Tracing(TracerProvider(sampler=ParentBased(ALWAYS_OFF))))


async def test_the_context_of_a_submit_that_was_not_sampled_is_found_wherever_its_handler_goes(unsampled):
    worker, seen = Worker(unsampled), []

    async def beside():
        seen.append((current_span(), "async"))

    def on_a_thread_that_is_given_no_more_than(carried):
        token = current.attach(carried)
        seen.append((current_span(), "async"))
        current.detach(token)

    @worker.task("async")
    async def handler(input):
        thread = threading.Thread(target=on_a_thread_that_is_given_no_more_than, args=[current.get_current()])
        thread.start()
        thread.join()
        seen.append((current_span(), "async"))
        await asyncio.create_task(beside())
        token = current.attach(current.set_value("mine", 1))
        seen.append((current_span(), "async"))
        current.detach(token)

    @worker.task("plain")
    def plain(input):
        seen.append((current_span(), "plain"))

    carried = {type_: (await unsampled.submit(type_)).headers["traceparent"] for type_ in ("async", "plain")}
    await worker.run(until_idle=True)
    assert len(seen) == 5
    for span, type_ in seen:
        assert f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" == carried[type_]
        assert not span.trace_flags.sampled
    assert not current_span().is_valid


async def test_baggage_arrives_whether_its_trace_is_sampled_or_not(unsampled):
    worker, seen = Worker(unsampled), []

    @worker.task("carries")
    async def carries(input):
        seen.append(baggage.get_baggage("tenant"))

    token = current.attach(baggage.set_baggage("tenant", "a"))
    await unsampled.submit("carries")
    current.detach(token)
    await worker.run(until_idle=True)
    assert seen == ["a"]


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF])
async def test_settling_and_hooks_never_run_under_the_span_of_an_attempt(sampler):
    class Watched(MemoryStore):
        async def swap(self, changes):
            seen.append(current_span())
            return await super().swap(changes)

    provider, seen, inside = TracerProvider(sampler=ParentBased(sampler)), [], []
    queue = Queue(Watched()).observe(Tracing(provider))
    worker = Worker(queue, concurrency=1)

    @worker.task("greet")
    async def greet(input):
        inside.append(current_span())

    @worker.on_success
    async def after(task):
        seen.append(current_span())

    for _ in range(3):
        await queue.submit("greet")
    with provider.get_tracer("test").start_as_current_span("around the worker") as around:
        await worker.run(until_idle=True)
    await queue.close()
    assert len(seen) >= 4
    assert {span.span_id for span in seen} == {around.get_span_context().span_id}
    assert around.get_span_context().trace_id not in {span.trace_id for span in inside}
    assert all(span.is_valid for span in inside)
