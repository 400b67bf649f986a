"""`tenure worker`: run an application's tasks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import WrongUsage
from tenure.cli.logs import LogFormat, LogLevel, set_up_logging
from tenure.cli.observing import Shown, observe, watched
from tenure.cli.words import duration, duration_option
from tenure.errors import one_of

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.queue import Queue
    from tenure.worker import Worker

app = typer.Typer()

SUPERVISOR = "TENURE_SUPERVISOR"
"""The pid of the process that started this one to work for it."""


@command(app)
async def worker(
    session: Session,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Tenure application, a Worker, or a function that returns one.",
            show_default="app of the settings file",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Worker processes; dead ones are replaced.", min=1, show_default="1")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Tasks at once in each process.", min=1, show_default="the application's, or 32")
    ] = None,
    queues: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Queues to take tasks from.", show_default="default")
    ] = None,
    lease: Annotated[timedelta | None, duration_option("How long a claim lasts without a sign of life (30s).")] = None,
    grace: Annotated[
        timedelta | None, duration_option("How long running tasks may take to finish on shutdown (30s).")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python file changes; for development.")
    ] = False,
    burst: Annotated[bool, typer.Option("--burst", help="Stop when nothing is due and nothing runs.")] = False,
    metrics_port: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve /metrics, /livez and /readyz there.", show_default="off"),
    ] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="How log lines look.", show_default="text")] = None,
    log_level: Annotated[LogLevel | None, typer.Option(help="The least that is logged.", show_default="info")] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="A span for each attempt, if your module or opentelemetry-instrument sets up OpenTelemetry."
        ),
    ] = False,
    sentry: Annotated[bool, typer.Option("--sentry", help="Report dead letters to $SENTRY_DSN.")] = False,
) -> int:
    """Run the tasks of an application until stopped.

    SIGTERM or Ctrl-C stops gracefully: no new claims, and what runs may finish within the
    grace. A second one stops now; what was running goes back to the queue.
    """
    target = target or session.settings["app"].value
    if target is None:
        msg = "Say what to run: tenure worker MODULE:OBJECT, like tenure worker myapp:app."
        raise WrongUsage(msg)
    file = session.settings
    style = _chosen("log_format", log_format or file["log_format"].value, LogFormat) or LogFormat.text
    level = _chosen("log_level", log_level or file["log_level"].value, LogLevel)
    console = set_up_logging(session.out, verbose=session.verbose, style=style, level=level)
    port = metrics_port or file["metrics_port"].value
    shown = Shown(None if port is None else str(port), trace or file["trace"].value, sentry or file["sentry"].value)
    count = processes or session.settings["processes"].value
    if count > 1 or reload:
        from tenure.cli.supervise import Supervisor

        words = _words(session, target, concurrency, queues, lease, grace, burst)
        words += [*shown.words(), "--log-format", style, *(["--log-level", level] if level else [])]
        supervisor = Supervisor(words, count, reload=reload, burst=burst, console=console, shown=shown)
        url = None if reload else await _address(session, target)
        if url is None or console is None:
            return await supervisor.run()
        from tenure.queue import connect

        async with connect(url) as queue, _live_line(console, queue):
            return await supervisor.run()
    settings = _settings(session, concurrency, queues, lease, grace)
    return await _work(session, target, settings, shown, burst=burst, console=console)


async def _address(session: Session, target: str) -> str | None:
    """Where the application's queue is; None when only its workers will know. A wrong target is found here, once."""
    from tenure.app import Tenure
    from tenure.cli.target import find

    found = find(target)
    if not isinstance(found, Tenure):
        return None
    return found.url if found.url and not session.url_given else session.url


async def _work(
    session: Session, target: str, settings: dict[str, Any], shown: Shown, *, burst: bool, console: Console | None
) -> int:
    from tenure.app import Tenure
    from tenure.cli.target import load

    found = await load(target)
    if isinstance(found, Tenure):
        if session.url_given or not found.url:
            found.url = session.url
        async with found:
            queue = await found.queue()
            observe(queue, shown)
            return await _run(session, found.worker(queue, **settings), shown, burst=burst, console=console)
    if session.url_given:
        msg = f"{target} is a Worker, which has its queue already; --url cannot change that. Let it be a Tenure application."
        raise WrongUsage(msg)
    for name, value in settings.items():
        setattr(found, name, value)
    async with found.queue:
        observe(found.queue, shown)
        return await _run(session, found, shown, burst=burst, console=console)


async def _run(session: Session, worker: Worker, shown: Shown, *, burst: bool, console: Console | None) -> int:
    async with (
        watched(worker, shown, supervised=SUPERVISOR in os.environ),
        _live_line(console, worker.queue),
        _beside(_stop_when_orphaned(worker)),
    ):
        ended = await worker.run(until_idle=burst)
    if session.out.as_json:
        session.out.emit({"worker": worker.worker_id, "ended": ended})
    return 0


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something that goes on beside the block, and ends with it."""
    import asyncio

    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def _live_line(console: Console | None, queue: Queue) -> AsyncIterator[None]:
    if console is None or SUPERVISOR in os.environ:
        yield
        return
    from tenure.cli.liveline import show_throughput

    async with _beside(show_throughput(console, queue)):
        yield


async def _stop_when_orphaned(worker: Worker) -> None:
    """A supervisor that was killed cannot stop its workers: they see for themselves that it is gone."""
    import asyncio

    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is None:
        return
    while os.getppid() == int(supervisor):  # noqa: ASYNC110 - the system tells nobody that a parent died
        await asyncio.sleep(1)
    worker.stop()


def _settings(
    session: Session,
    concurrency: int | None,
    queues: str | None,
    lease: timedelta | None,
    grace: timedelta | None,
) -> dict[str, Any]:
    """What the command line or the settings file say; the application decides the rest."""
    file = session.settings
    names = _listed(queues) if queues else file["queues"].value
    lease = lease or _duration(file["lease"].value)
    grace = grace if grace is not None else _duration(file["grace"].value)
    given = {
        "concurrency": concurrency or file["concurrency"].value,
        "queues": names and tuple(names),
        "lease": lease,
        "grace": None if grace is None else grace.total_seconds(),
    }
    return {name: value for name, value in given.items() if value is not None}


def _listed(queues: str) -> list[str]:
    names = [name for part in queues.split(",") if (name := part.strip())]
    if not names:
        msg = f"--queues {queues!r} names no queue. Write mail,default."
        raise WrongUsage(msg)
    return names


def _chosen(name: str, value: str | None, words: type[StrEnum]) -> str | None:
    """A word of the settings file is checked like one of the command line."""
    if value is not None and value not in list(words):
        raise WrongUsage(one_of(name, value, [word.value for word in words]))
    return value


def _duration(value: str | float | None) -> timedelta | None:
    return None if value is None else duration(str(value))


def _words(
    session: Session,
    target: str,
    concurrency: int | None,
    queues: str | None,
    lease: timedelta | None,
    grace: timedelta | None,
    burst: bool,
) -> list[str]:
    """The command line of one worker process under a supervisor."""
    words = ["worker", target, "--processes", "1"]
    for name, value in (
        ("--url", session.url if session.url_given else None),
        ("--profile", session.profile),
        ("--concurrency", concurrency),
        ("--queues", queues),
        ("--lease", lease and lease.total_seconds()),
        ("--grace", None if grace is None else grace.total_seconds()),
    ):
        if value is not None:
            words += [name, str(value)]
    flags = {"--burst": burst, "--json": session.out.as_json, "--verbose": session.verbose}
    return words + [flag for flag, wanted in flags.items() if wanted]
