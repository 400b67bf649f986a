"""What it costs to observe: the same drain with nothing on and with everything on, turn by turn in one run.

    python bench/observe.py            a few minutes; writes bench/results/observe.md
    python bench/observe.py --short    a quick look; writes nothing

Each way is a producer and a worker on a file of its own, because what a producer leaves in the memory of its
process would slow a worker down there. They drain in short rounds, because a shared machine has slow
and fast minutes, and a way is compared with nothing on in the same round. Where a process happens to put its memory
makes a difference of several per cent, so they begin anew several times. CPU time stands beside the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import random
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
ROUNDS = 3
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

        logging.getLogger().addHandler(JsonHandler((folder / f"{os.getpid()}.json").open("w")))
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


async def serve(role: str, way: str, folder: Path) -> None:
    """Do something for each line of the input, which says with how many tasks, and answer with a line."""
    async with connect(f"sqlite:///{folder}/jobs.db") as queue:
        subscribe(queue, way, folder)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await ROLES[role](queue, int(line))), flush=True)


async def submit(queue: Queue, tasks: int) -> dict[str, float]:
    for first in range(0, tasks, BATCH):
        # A trace for each task, as requests would have begun them.
        await asyncio.gather(*(queue.submit(TYPE, reminder(number)) for number in range(first, first + BATCH)))
    return {}


async def drain(queue: Queue, tasks: int) -> dict[str, float]:
    worker = Worker(queue, concurrency=CONCURRENCY)
    worker.task(TYPE)(_run)
    gc.collect()
    gc.freeze()
    begin, busy = time.monotonic(), time.process_time()
    ended = await worker.run(until_idle=True)
    took, used = time.monotonic() - begin, time.process_time() - busy
    assert ended == tasks
    assert (await queue.counts())["pending"] == 0  # type: ignore[index]
    return {"rate": tasks / took, "cpu": used / tasks * 1e6}


ROLES = {"submit": submit, "drain": drain}


async def _run(input: Reminder) -> None:  # noqa: A002 - the contract's name
    pass


class Served:
    """A process of one role, which observes in one way."""

    def __init__(self, role: str, way: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        words = [sys.executable, __file__, "--serve", role, "--way", way, "--folder", str(folder)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, tasks: int) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(tasks, file=self._process.stdin, flush=True)
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Drainer:
    """A producer and a worker that observe in one way, on one file."""

    def __init__(self, way: str, folder: Path) -> None:
        self._producer, self._worker = (Served(role, way, folder) for role in ROLES)

    def measure(self, tasks: int) -> dict[str, float]:
        self._producer.ask(tasks)
        return self._worker.ask(tasks)

    def end(self) -> None:
        self._producer.end()
        self._worker.end()


def measure(tasks: int, sets: int) -> dict[str, list[dict[str, float]]]:
    """What each way has measured in each round. The first one of new processes warms up and is left out."""
    measured: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for number in range(sets):
        print(f"processes {number + 1} of {sets}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            drainers = {way: Drainer(way, Path(folder) / way) for way in WAYS}
            for drainer in drainers.values():
                drainer.measure(tasks)
            for _ in range(ROUNDS):
                for way in random.sample(list(WAYS), len(WAYS)):
                    measured[way].append(drainers[way].measure(tasks))
            for drainer in drainers.values():
                drainer.end()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--serve", choices=list(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.serve:
        asyncio.run(serve(choices.serve, choices.way, choices.folder))
        return
    tasks, sets = (2000, 1) if choices.short else (choices.tasks, choices.sets)
    page = _page(measure(tasks, sets), tasks, sets)
    print(page)
    if not choices.short:
        (HERE / "results" / "observe.md").write_text(page)


def _page(measured: dict[str, list[dict[str, float]]], tasks: int, sets: int) -> str:
    about = report.machine(Path(tempfile.gettempdir()))
    lines = ["# What it costs to observe", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        f"- drain of {tasks:,} tasks from an SQLite file, a producer and a worker for each way, concurrency {CONCURRENCY}, a handler that does nothing",
        f"- {sets * ROUNDS} rounds, in each all ways turn by turn in an order of chance; new processes after every {ROUNDS}",
        "- medians of the rounds; a share is the median of the shares of each round",
        f"- a look at whether anybody listens, where nobody does: {_unheard():.0f} ns, three of them per task",
        "",
        "| what | tasks/s | of nothing on | CPU per task | of nothing on |",
        "|---|---|---|---|---|",
    ]
    for way, words in WAYS.items():
        (rate, kept), (cpu, more) = (_of_nothing(measured, way, key) for key in ("rate", "cpu"))
        lines.append(f"| {words} | {rate:,.0f} | {kept:.0%} | {cpu:.1f} µs | {more:.0%} |")
    return "\n".join(lines) + "\n"


def _of_nothing(measured: dict[str, list[dict[str, float]]], way: str, key: str) -> tuple[float, float]:
    """The median of a way, and the median of what it is in each round of what nothing on was there."""
    own, nothing = ([one[key] for one in measured[each]] for each in (way, NOTHING))
    return statistics.median(own), statistics.median(a / b for a, b in zip(own, nothing, strict=True))


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
