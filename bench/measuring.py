"""What is measured of a system, the same for every one of them.

A drain begins when the first handler starts and ends when the store says that nothing is left: what was handled
but not yet written down does not count. Every run checks that each task ran exactly once.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from processes import Client, Failed, Worker
from servers import Places
from systems import HERE, System

CONCURRENCY = 200
PAUSE = 0.01
NETWORK = 0.001
"""Seconds that each direction takes in the run over a network: 2 ms there and back."""
EVERY = 0.02
LOOK = 0.005
SETTLE = 1.0
"""Seconds after the last task until a worker counts as idle."""


@dataclass(frozen=True)
class Size:
    """How much work a run is."""

    tasks: int
    one_by_one: int
    samples: int
    idle: float
    everything: bool = True
    """Also what the peers are asked for only when there is time: waiting handlers, a server far away."""

    def of(self, system: System) -> Size:
        """A slow system gets a share, so that the whole stays bearable; rates do not depend on it much."""
        return replace(self, tasks=max(int(self.tasks * system.share), 100))


class Measurement:
    """One system, once. Figures and failures add up while it goes."""

    def __init__(self, system: System, size: Size, places: Places, folder: Path) -> None:
        self.system, self.size, self._places = system, size.of(system), places
        self._log, self._notes = folder / f"{system.name}.log", folder / f"{system.name}.notes"
        self.figures: dict[str, float] = {}
        self.failures: dict[str, str] = {}
        self.settings = ""

    def run(self) -> None:
        stages = {"drain": self._bulk_and_drain, "drain_two": self._callers_and_drain_two, "both": self._while_it_works}
        everything = self.size.everything or self.system.is_tenure
        if everything and self.system.sleeps:
            stages["waiting"] = self._waiting
        if everything and self.system.store in ("postgresql", "redis"):
            stages["far"] = self._far
        for name, stage in stages.items():
            with self._place() as (url, client):
                try:
                    stage(url, client)
                except Failed as error:
                    self.failures[name] = str(error)

    def drain_beside(self, url: str) -> float:
        """Tasks per second, with whatever stands in that store already."""
        with Client(self.system, url, self._log) as client:
            before = client.do("left")["left"]
            self._fill(client, self.size.tasks)
            with self._worker(url, self.size.tasks) as worker:
                worker.go()
                begin, end = self._finished(client, [worker], self.size.tasks, left=before)
        return self.size.tasks / (end - begin)

    def _bulk_and_drain(self, url: str, client: Client) -> None:
        count = self.size.tasks
        self._submit("bulk", client, 0, count)
        with self._worker(url, count) as worker:
            before = worker.processor_seconds(), self._places.requests(url)
            worker.go()
            begin, end = self._finished(client, [worker], count)
            self.figures["drain"] = count / (end - begin)
            self.figures["processor"] = (worker.processor_seconds() - before[0]) * 10_000 / count
            self.figures["memory_busy"] = worker.peak_memory()
            if before[1] is not None:
                requests = (self._places.requests(url) or 0) - before[1]
                self.figures["requests"] = requests * 1000 / count

    def _callers_and_drain_two(self, url: str, client: Client) -> None:
        count = self.size.tasks
        self._submit("callers", client, 0, count)
        with self._worker(url, count, 1) as one, self._worker(url, count, 2) as two:
            one.go()
            two.go()
            begin, end = self._finished(client, [one, two], count)
        self.figures["drain_two"] = count / (end - begin)

    def _while_it_works(self, url: str, client: Client) -> None:
        """One by one, with a worker that comes later; then the pick-up of that worker; then both at once."""
        few, samples, count = self.size.one_by_one, self.size.samples, self.size.tasks
        self._submit("one", client, 0, few)
        with self._worker(url, few + samples + count) as worker:
            worker.go()
            self._finished(client, [worker], few)
            sent = client.do("paced", first=few, count=samples, every=EVERY)["sent"]
            self._finished(client, [worker], few + samples)
            starts = worker.starts()[few : few + samples]
            waits = [(start - at) * 1000 for start, at in zip(starts, sent, strict=True)]
            self.figures["half"], self.figures["most"] = percentile(waits, 50), percentile(waits, 99)
            self._idle(worker)
            answer = client.do("callers", self._patience(count), first=few + samples, count=count)
            _, end = self._finished(client, [worker], few + samples + count)
            self.figures["both"] = count / (end - answer["begin"])

    def _idle(self, worker: Worker) -> None:
        time.sleep(SETTLE)
        before = worker.processor_seconds()
        time.sleep(self.size.idle)
        self.figures["idle"] = (worker.processor_seconds() - before) / self.size.idle * 100
        self.figures["memory_idle"] = worker.memory()

    def _waiting(self, url: str, client: Client) -> None:
        """Handlers that sleep: the share of what so many slots could do at best."""
        count = self.size.tasks
        self._fill(client, count)
        with self._worker(url, count, pause=PAUSE) as worker:
            worker.go()
            begin, end = self._finished(client, [worker], count)
        self.figures["waiting"] = count * PAUSE / CONCURRENCY / (end - begin) * 100

    def _far(self, url: str, client: Client) -> None:
        """Through a proxy that waits; of Tenure also through one that does not, since a proxy alone has its price."""
        self.figures["far"] = self._drain_over(url, client, NETWORK)
        if self.system.is_tenure:
            self.figures["near"] = self._drain_over(url, client, 0.0)

    def _drain_over(self, url: str, client: Client, delay: float) -> float:
        count = max(self.size.tasks // 4, 100)
        self._fill(client, count)
        port = int(url.rpartition(":")[2].partition("/")[0])
        with slow_way(port, delay) as way, self._worker(url.replace(f":{port}/", f":{way}/"), count) as worker:
            worker.go()
            begin, end = self._finished(client, [worker], count)
        return count / (end - begin)

    def _submit(self, how: str, client: Client, first: int, count: int) -> None:
        answer = client.do(how, self._patience(count), first=first, count=count)
        if "missing" in answer:
            client.do("callers", self._patience(count), first=first, count=count)
        else:
            self.figures[f"submit_{how}"] = count / (answer["end"] - answer["begin"])

    def _fill(self, client: Client, count: int) -> None:
        if "missing" in client.do("bulk", self._patience(count), first=0, count=count):
            client.do("callers", self._patience(count), first=0, count=count)

    def _finished(self, client: Client, workers: Sequence[Worker], count: int, left: int = 0) -> tuple[float, float]:
        """When the first of them began, and when the store said that nothing is left of them."""
        deadline = time.monotonic() + self._patience(count)
        _until(lambda: sum(worker.distinct() for worker in workers) >= count, workers, deadline)
        end = 0.0

        def nothing_left() -> bool:
            nonlocal end
            still = client.do("left")["left"]
            end = time.monotonic()
            return bool(still <= left)

        _until(nothing_left, workers, deadline)
        runs = [sum(each) for each in zip(*(worker.runs() for worker in workers), strict=True)]
        if set(runs[:count]) != {1} or any(runs[count:]):
            twice, never = sum(run > 1 for run in runs), sum(run == 0 for run in runs[:count])
            msg = f"of {count} tasks, {twice} ran more than once and {never} never"
            raise Failed(msg)
        return min(start for worker in workers for start in worker.starts() if start), end

    @contextmanager
    def _place(self) -> Iterator[tuple[str, Client]]:
        url = self._places.new(self.system.store)
        try:
            with Client(self.system, url, self._log) as client:
                self.settings = client.do("prepare")["settings"]
                yield url, client
        finally:
            self._places.used_up(url)

    def _worker(self, url: str, count: int, number: int = 1, pause: float = 0.0) -> Worker:
        notes = self._notes.with_suffix(f".{number}")
        return Worker(self.system, url, self._log, notes, count, CONCURRENCY, pause)

    def _patience(self, count: int) -> float:
        return 30 + count / 50


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _until(happened: Callable[[], bool], workers: Sequence[Worker], deadline: float) -> None:
    while not happened():
        for worker in workers:
            worker.check_alive()
        if time.monotonic() > deadline:
            ran = sum(worker.distinct() for worker in workers)
            msg = f"did not finish in time ({ran} tasks ran)"
            raise Failed(msg)
        time.sleep(LOOK)


@contextmanager
def slow_way(port: int, delay: float) -> Iterator[int]:
    """A port that leads to the server, that much later in each direction."""
    words = [sys.executable, str(HERE / "slow_way.py"), str(port), str(delay)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
