"""A picture of the dashboard: a real run, and what a real Prometheus answers to every query of its panels.

    python bench/dashboard.py            three minutes; writes docs/pictures/dashboard.svg

Two worker processes under a supervisor work on an SQLite file, this process is the producer and causes the trouble,
and both are scraped every second.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import start_http_server

from panels import Mark, Series, picture
from tenure import Queue, connect
from tenure.observe import Prometheus, dashboard
from tenure.testing.ports import free_port

if TYPE_CHECKING:
    from prometheus_server import PrometheusServer

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "pictures" / "dashboard.svg"
SECONDS = 180
STEP = 2
RATE_INTERVAL = "10s"
LEASE = 5
QUIET = range(125, 145)
BANK_IS_DOWN = range(65, 80)


class Stage:
    """The queue, and what happens to it and to its workers."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._dice = random.Random(1)

    async def stream(self, begin: float) -> None:
        """The usual submits: mails, charges, offers, and now and then a report."""
        while (second := int(time.time() - begin)) < SECONDS:
            if second not in QUIET:
                await self._mails(self._dice.randint(1, 5))
                is_down = second in BANK_IS_DOWN and self._dice.random() < 0.7
                await self._queue.submit("charge_card", begin + BANK_IS_DOWN.stop if is_down else 0)
                if self._dice.random() < 0.2:
                    await self._offers(1)
                    await self._reports(1)
            await asyncio.sleep(0.25)

    async def many_mails(self) -> None:
        await self._mails(2000)

    async def a_killed_worker(self) -> None:
        os.kill(await self._some_worker(), signal.SIGKILL)

    async def a_pause(self) -> None:
        await self._queue.pause("mail")
        await self._offers(80)
        await self._queue.submit_many([("newsletter", None)] * 50)

    async def a_resume(self) -> None:
        await self._queue.resume("mail")
        await self._queue.cancel_by_type("newsletter")

    async def requeued_letters(self) -> None:
        for task in (await self._queue.list("failed", limit=1000)).tasks:
            await self._queue.retry(task.id)

    async def a_frozen_worker(self) -> None:
        await self._begun_reports()
        pid = await self._some_worker()
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(LEASE * 1.5)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def a_stopped_worker(self) -> None:
        await self._begun_reports()
        os.kill(await self._some_worker(), signal.SIGTERM)

    async def _mails(self, count: int) -> None:
        await self._queue.submit_many([("send_mail", None)] * count, queue="mail", ttl=600)

    async def _offers(self, count: int) -> None:
        await self._queue.submit_many([("flash_offer", None)] * count, queue="mail", ttl=20)

    async def _reports(self, count: int) -> None:
        tasks = [("make_report", self._dice.random() < 0.3) for _ in range(count)]
        await self._queue.submit_many(tasks, ttl=3600)

    async def _begun_reports(self) -> None:
        """Enough of them that each worker is in the middle of some."""
        await self._reports(15)
        await asyncio.sleep(0.5)

    async def _some_worker(self) -> int:
        """The one that gave the latest sign of life, so that it is none of the dead."""
        return max(await self._queue.workers(), key=lambda worker: worker.seen_at).pid


class Scene(NamedTuple):
    """What happens at a second of the run; without `play`, the stream does it."""

    second: int
    text: str
    play: Callable[[Stage], Awaitable[None]] | None = None


STORY = (
    Scene(20, "2,000 mails at once", Stage.many_mails),
    Scene(32, "a worker is killed and replaced", Stage.a_killed_worker),
    Scene(BANK_IS_DOWN.start, "the bank does not answer"),
    Scene(90, "mail is paused, with offers that live for 20 s", Stage.a_pause),
    Scene(115, "mail goes on; newsletters are cancelled", Stage.a_resume),
    Scene(QUIET.start, "nothing is submitted"),
    Scene(QUIET.stop, "it goes on; dead letters are requeued", Stage.requeued_letters),
    Scene(155, "a worker freezes for longer than its leases", Stage.a_frozen_worker),
    Scene(168, "a worker is stopped and replaced", Stage.a_stopped_worker),
)


@contextmanager
def workers(url: str, port: int, folder: Path) -> Iterator[None]:
    """A supervisor with two processes; it ends them when it is ended."""
    words = f"worker dashboard_tasks:app --url {url} --processes 2 --concurrency 6 --queues default,mail --lease {LEASE} --grace 0"
    command = [sys.executable, "-m", "tenure", *words.split(), "--metrics-port", f"127.0.0.1:{port}"]
    with (folder / "workers.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            # Its workers see that it is gone, and end too.
            process.kill()
            process.wait()


async def play(url: str) -> float:
    """The whole story; returns when it began."""
    async with connect(url) as queue, asyncio.TaskGroup() as group:
        queue.observe(Prometheus())
        while len(await queue.workers()) < 2:  # noqa: ASYNC110 - other processes tell no event of this one
            await asyncio.sleep(0.1)
        stage, begin = Stage(queue), time.time()
        group.create_task(stage.stream(begin))
        for scene in STORY:
            await asyncio.sleep(begin + scene.second - time.time())
            print(f"{scene.second:4} s  {scene.text}", flush=True)
            if scene.play is not None:
                await scene.play(stage)
    return begin


def answers(server: PrometheusServer, panel: dict[str, Any], begin: float, end: float) -> list[Series]:
    """Every line of a panel that has a value in this time."""
    found = []
    for target in panel["targets"]:
        expression = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
        for series in server.query_range(expression, begin, end, STEP):
            points = [(moment - begin, float(value)) for moment, value in series["values"] if value != "NaN"]
            if points:
                found.append(Series(_legend(target["legendFormat"], series["metric"]), points))
    return found


def _legend(pattern: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda label: labels[label[1]], pattern)


def main() -> None:
    sys.path.append(str(HERE.parent / "tests"))
    from prometheus_server import PrometheusServer

    with tempfile.TemporaryDirectory(prefix="tenure-dashboard-") as name:
        folder, ports = Path(name), (free_port(), free_port())
        url = f"sqlite:///{folder / 'shop.db'}"
        start_http_server(ports[1], "127.0.0.1")
        with workers(url, ports[0], folder), PrometheusServer(folder, ports, every="1s") as server:
            begin = asyncio.run(play(url))
            panels = json.loads(dashboard.FILE.read_text())["panels"]
            series = [answers(server, panel, begin, begin + SECONDS) for panel in panels]
    marks = [Mark(scene.second, scene.text) for scene in STORY]
    title = f"Tenure: the panels of the dashboard, {SECONDS // 60} minutes of two workers on an SQLite file"
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(title, panels, series, marks, SECONDS))


if __name__ == "__main__":
    main()
