"""What it costs to observe: the same drain with nothing on and with everything on, turn by turn in one run.

    python bench/observe.py            a few minutes; writes bench/results/observe.md
    python bench/observe.py --short    a quick look; writes nothing

Each way is a producer and a worker on a file or schema of its own, because what a producer leaves in the memory of its
process would slow a worker down there. They drain in short rounds, because a shared machine has slow
and fast minutes, and a way is compared with nothing on in the same round. Where a process happens to put its memory
makes a difference of several per cent, so they begin anew several times. CPU time stands beside the rate: it is the worker's,
which on SQLite is all there is, and with PostgreSQL leaves room while the server works.
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
from typing import Any, TextIO

import report
from tenure import Queue, Worker, connect
from tenure.testing.postgres import PostgresServer
from workload import CONCURRENCY, TYPE, Reminder, reminder

HERE = Path(__file__).parent
BATCH = 1000
ROUNDS = 3
SAMPLED = 0.01
NOTHING, EVERYTHING, ON_DISK = "nothing", "everything", "everything_on_disk"
WAYS = {
    NOTHING: "nothing on",
    EVERYTHING: f"everything on: JSON log lines, metrics, traces ({SAMPLED:.0%} sampled), Sentry",
    ON_DISK: "everything on, the log lines into a file on the disk of the store",
    "logging": "JSON log lines (one per completed task)",
    "prometheus": "Prometheus metrics",
    "tracing": f"OpenTelemetry, {SAMPLED:.0%} of the traces sampled",
    "sampled": "OpenTelemetry, every trace sampled and exported in batches",
    "sentry": "Sentry (nothing fails)",
}
STORES = {"SQLite": list(WAYS), "PostgreSQL": [NOTHING, EVERYTHING, ON_DISK]}
Measured = dict[str, list[dict[str, float]]]


def subscribe(queue: Queue, way: str, folder: Path) -> None:
    everything = way in (EVERYTHING, ON_DISK)
    if everything or way == "logging":
        from tenure.observe.logging import JsonHandler, Logging

        path = folder / f"{os.getpid()}.json"
        logging.getLogger().addHandler(JsonHandler(path.open("w") if way == ON_DISK else _collector()))
        logging.getLogger().setLevel(logging.INFO)
        queue.observe(Logging())
    if everything or way == "prometheus":
        from tenure.observe.prometheus import Prometheus

        queue.observe(Prometheus())
    if everything or way in ("tracing", "sampled"):
        from tenure.observe.tracing import Tracing

        queue.observe(Tracing(_provider(1.0 if way == "sampled" else SAMPLED)))
    if everything or way == "sentry":
        import sentry_sdk

        from tenure.observe.sentry import Sentry

        sentry_sdk.init("http://key@127.0.0.1:9/1")
        queue.observe(Sentry())


def _collector() -> TextIO:
    """A pipe to a process that reads it, as a container's or a service manager's."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    return process.stdin  # type: ignore[return-value]


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


async def serve(role: str, way: str, url: str, folder: Path) -> None:
    """Do something for each line of the input, which says with how many tasks, and answer with a line."""
    async with connect(url) as queue:
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
    worker.task(TYPE)(do_nothing)
    gc.collect()
    gc.freeze()
    begin, busy = time.monotonic(), time.process_time()
    ended = await worker.run(until_idle=True)
    took, used = time.monotonic() - begin, time.process_time() - busy
    assert ended == tasks
    assert (await queue.counts())["pending"] == 0  # type: ignore[index]
    return {"rate": tasks / took, "cpu": used / tasks * 1e6}


ROLES = {"submit": submit, "drain": drain}


async def do_nothing(input: Reminder) -> None:  # noqa: A002 - the contract's name
    pass


class Served:
    """A process of one role, which observes in one way."""

    def __init__(self, role: str, way: str, url: str, folder: Path) -> None:
        words = [sys.executable, __file__, "--serve", role, "--way", way, "--url", url, "--folder", str(folder)]
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
    """A producer and a worker that observe in one way, on one file or schema."""

    def __init__(self, way: str, url: str, folder: Path) -> None:
        self._producer, self._worker = (Served(role, way, url, folder) for role in ROLES)

    def measure(self, tasks: int) -> dict[str, float]:
        self._producer.ask(tasks)
        return self._worker.ask(tasks)

    def end(self) -> None:
        self._producer.end()
        self._worker.end()


def measure(store: str, server: PostgresServer, tasks: int, sets: int) -> Measured:
    """What each way has measured in each round. The first one of new processes warms up and is left out."""
    measured: Measured = {way: [] for way in STORES[store]}
    for number in range(sets):
        print(f"{store}: processes {number + 1} of {sets}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            places = {
                "SQLite": f"sqlite:///{folder}/{{way}}.db",
                "PostgreSQL": f"{server.url}?schema={{way}}_{number}",
            }
            drainers = {way: Drainer(way, places[store].format(way=way), Path(folder)) for way in measured}
            for drainer in drainers.values():
                drainer.measure(tasks)
            for _ in range(ROUNDS):
                for way in random.sample(list(measured), len(measured)):
                    measured[way].append(drainers[way].measure(tasks))
            for drainer in drainers.values():
                drainer.end()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--sets", type=int, default=4)
    parser.add_argument("--serve", choices=list(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.serve:
        asyncio.run(serve(choices.serve, choices.way, choices.url, choices.folder))
        return
    tasks, sets = (2000, 1) if choices.short else (choices.tasks, choices.sets)
    about = report.machine(Path(tempfile.gettempdir()))
    with PostgresServer() as server:
        measured = {store: measure(store, server, tasks, sets) for store in STORES}
    page = _page(about, measured, tasks, sets)
    print(page)
    if not choices.short:
        (HERE / "results" / "observe.md").write_text(page)


def _page(about: dict[str, str], measured: dict[str, Measured], tasks: int, sets: int) -> str:
    lines = ["# What it costs to observe", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        f"- drain of {tasks:,} tasks, a producer and a worker for each way, concurrency {CONCURRENCY}, a handler that does nothing; PostgreSQL on the same machine",
        f"- {sets * ROUNDS} rounds, in each all ways turn by turn in an order of chance; new processes after every {ROUNDS}",
        "- medians of the rounds; a share is the median of the shares of each round; CPU time is the worker's, without the server's",
        f"- a look at whether anybody listens, where nobody does: {_unheard():.0f} ns, three of them per task",
    ]
    for store, ways in measured.items():
        lines += ["", f"## {store}", ""]
        lines += ["| what | tasks/s | of nothing on | CPU per task | of nothing on |", "|---|---|---|---|---|"]
        for way in ways:
            (rate, kept), (cpu, more) = (_of_nothing(ways, way, key) for key in ("rate", "cpu"))
            lines.append(f"| {WAYS[way]} | {rate:,.0f} | {kept:.0%} | {cpu:.1f} µs | {more:.0%} |")
    return "\n".join(lines) + "\n"


def _of_nothing(measured: Measured, way: str, key: str) -> tuple[float, float]:
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
