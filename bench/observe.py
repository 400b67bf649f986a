"""What it costs to observe: the same drain with nothing on and with everything on, turn by turn in one run.

    python bench/observe.py            a few minutes; writes bench/results/observe.md
    python bench/observe.py --short    a quick look; writes nothing

Each drain is a process of its own on a file of its own. CPU time stands beside the rate, because a shared machine
disturbs it less.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import Any

import report
from tenure import Queue, Worker, connect
from workload import CONCURRENCY, TYPE, Reminder, reminder

HERE = Path(__file__).parent
BATCH = 1000
SAMPLED = 0.01
NOTHING, EVERYTHING = "nothing", "everything"
WAYS = {
    NOTHING: "nothing on",
    EVERYTHING: f"everything on: JSON log lines, metrics, traces ({SAMPLED:.0%} sampled), Sentry",
    "logging": "JSON log lines (one per completed task) into a file",
    "prometheus": "Prometheus metrics",
    "tracing": f"OpenTelemetry, {SAMPLED:.0%} of the traces sampled",
    "sampled": "OpenTelemetry, every trace sampled and exported in batches",
    "sentry": "Sentry (nothing fails)",
}


def subscribe(queue: Queue, way: str, folder: Path) -> None:
    if way in ("logging", EVERYTHING):
        from tenure.observe.logging import JsonHandler, Logging

        logging.getLogger().addHandler(JsonHandler((folder / "lines.json").open("w")))
        logging.getLogger().setLevel(logging.INFO)
        queue.observe(Logging())
    if way in ("prometheus", EVERYTHING):
        from tenure.observe.prometheus import Prometheus

        queue.observe(Prometheus())
    if way in ("tracing", "sampled", EVERYTHING):
        from tenure.observe.tracing import Tracing

        queue.observe(Tracing(_provider(1.0 if way == "sampled" else SAMPLED)))
    if way in ("sentry", EVERYTHING):
        import sentry_sdk

        from tenure.observe.sentry import Sentry

        sentry_sdk.init("http://key@127.0.0.1:9/1")
        queue.observe(Sentry())


def _provider(share: float) -> Any:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - they go nowhere
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    return provider


async def drain(way: str, tasks: int, folder: Path) -> dict[str, float]:
    """Submit, then measure the drain alone."""
    async with connect(f"sqlite:///{folder}/jobs.db") as queue:
        subscribe(queue, way, folder)
        for first in range(0, tasks, BATCH):
            # A trace for each task, as requests would have begun them.
            await asyncio.gather(*(queue.submit(TYPE, reminder(number)) for number in range(first, first + BATCH)))
        worker = Worker(queue, concurrency=CONCURRENCY)
        worker.task(TYPE)(_run)
        gc.collect()
        gc.freeze()
        begin, busy = time.monotonic(), time.process_time()
        ended = await worker.run(until_idle=True)
        took, used = time.monotonic() - begin, time.process_time() - busy
        assert ended == tasks
        assert (await queue.counts())["completed"] == tasks  # type: ignore[index]
    return {"rate": tasks / took, "cpu": used / tasks * 1e6}


async def _run(input: Reminder) -> None:  # noqa: A002 - the contract's name
    pass


def measure(way: str, tasks: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        words = [sys.executable, __file__, "--drain", way, "--tasks", str(tasks), "--folder", folder]
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=600)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--drain", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.drain:
        print(json.dumps(asyncio.run(drain(choices.drain, choices.tasks, choices.folder))))
        return
    tasks, repeats = (4000, 2) if choices.short else (choices.tasks, choices.repeats)
    measured: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
        for way in WAYS:
            measured[way].append(measure(way, tasks))
    page = _page(measured, tasks, repeats)
    print(page)
    if not choices.short:
        (HERE / "results" / "observe.md").write_text(page)


def _page(measured: dict[str, list[dict[str, float]]], tasks: int, repeats: int) -> str:
    about = report.machine(Path(tempfile.gettempdir()))
    lines = ["# What it costs to observe", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        f"- drain of {tasks:,} tasks from an SQLite file, one process, concurrency {CONCURRENCY}, a handler that does nothing",
        f"- repeats: {repeats}, all ways turn by turn; medians",
        f"- a look at whether anybody listens, where nobody does: {_unheard():.0f} ns, three of them per task",
        "",
        "| what | tasks/s | of nothing on | CPU per task | of nothing on |",
        "|---|---|---|---|---|",
    ]
    rate, cpu = ({way: statistics.median(one[key] for one in measured[way]) for way in WAYS} for key in ("rate", "cpu"))
    lines += [
        f"| {WAYS[way]} | {rate[way]:,.0f} | {rate[way] / rate[NOTHING]:.0%} | {cpu[way]:.1f} µs | {cpu[way] / cpu[NOTHING]:.0%} |"
        for way in WAYS
    ]
    return "\n".join(lines) + "\n"


def _unheard() -> float:
    """Nanoseconds of one check, as every emitter makes it."""

    class Emitter:
        def __init__(self) -> None:
            from tenure.observe.events import Events

            self.events = Events()

    emitter, times = Emitter(), 1_000_000
    return min(timeit.repeat("emitter.events.subscribers", globals={"emitter": emitter}, number=times)) / times * 1e9


if __name__ == "__main__":
    main()
