"""The dashboard before a real Prometheus: it understands every line, and what happens to tasks is seen in them."""

import asyncio
import time
import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from prometheus_server import PrometheusServer
from tenure import PermanentError, RescheduleError, RetryPolicy, Worker, connect
from tenure.observe.dashboard import dashboard
from tenure.observe.prometheus import Prometheus
from tenure.observe.server import Server
from tenure.stores.base import Want

PATIENCE = 60.0
AT_ZERO = {"released {{queue}}", "lost {{queue}}", "settled late {{queue}}", "damaged records"}
"""What does not happen in this run."""


@pytest.fixture
def bench(monkeypatch):
    """The modules that draw the picture in docs/operations.md."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import dashboard
    import panels

    return dashboard, panels


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
async def queue(tmp_path, registry):
    """A queue that a worker works on and a registry counts."""
    async with connect(f"sqlite:///{tmp_path / 'tasks.db'}") as queue:
        queue.observe(Prometheus(registry))
        worker = Worker(queue, retry=RetryPolicy(base=0, jitter=0), sweep_interval=0.05)
        worker.task("mixed")(mixed)
        working = asyncio.create_task(worker.run())
        yield queue
        worker.stop(now=True)
        await working


def mixed(input, context):
    match input:
        case "breaks":
            raise PermanentError
        case "flaky" if context.attempt == 1:
            raise ValueError
        case "again" if not context.task.reschedules:
            raise RescheduleError(delay_seconds=0)


async def trouble(queue):
    """A bit of everything that can happen to tasks."""
    await queue.submit_many([("mixed", kind) for kind in ("works", "breaks", "flaky", "again")], ttl=3600)
    await queue.submit("mixed", "expires", ttl=0)
    await queue.cancel((await queue.submit("mixed", "cancelled", delay=60)).id)
    for dead in (await queue.list("dead", limit=1)).tasks:
        await queue.retry(dead.id)
    await queue.pause("mail")
    await queue.submit("mixed", "waits", queue="mail", ttl=30)
    # Nobody else takes this type, and the worker that claims it is never heard of again.
    for lease in (timedelta(milliseconds=1), timedelta(hours=1)):
        await queue.submit("orphan", max_attempts=1)
        await queue.store.claim(Want("gone", ("default",), {"orphan": 1}, 1, lease))
    await queue.submit("orphan", delay=60)
    await queue.events.look(queue)


async def test_a_real_prometheus_answers_every_line_and_shows_what_happened(queue, registry, tmp_path, bench):
    program, drawing = bench
    panels, begin = dashboard()["panels"], time.time()
    lines = [(panel, target) for panel in panels for target in panel["targets"]]

    def seen(panel, *targets):
        return program.answers(server, {**panel, "targets": targets or panel["targets"]}, begin, time.time())

    with (
        Server("127.0.0.1:0", registry, None) as metrics,
        PrometheusServer(tmp_path, [metrics.port], every="100ms") as server,
    ):
        missing = [(panel, target) for panel, target in lines if target["legendFormat"] not in AT_ZERO]
        deadline = time.monotonic() + PATIENCE
        # A rate is the difference of two scrapes, so it takes some more of it until all is seen.
        while missing and time.monotonic() < deadline:
            await trouble(queue)
            missing = [line for line in missing if not any(series.peak > 0 for series in seen(*line))]
        assert [(panel["title"], target["expr"]) for panel, target in missing] == []
        assert [target["expr"] for panel, target in lines if not seen(panel, target)] == []
        marks = [drawing.Mark(1, "it <begins>")]
        picture = drawing.picture("Tenure", panels, [seen(panel) for panel in panels], marks, time.time() - begin)
    texts = {text.text for text in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= {panel["title"] for panel in panels} | {"mail pending", "p99 mixed", "a: it <begins>"}
