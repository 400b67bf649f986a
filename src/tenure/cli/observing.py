"""What a worker of the command line shows of itself: log lines, metrics, traces, error reports, health."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tenure.cli.errors import WrongUsage

if TYPE_CHECKING:
    from tenure.observe.watchdog import Systemd
    from tenure.queue import Queue
    from tenure.worker import Worker

log = logging.getLogger("tenure.worker")

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Where the processes of a supervisor count, as prometheus_client reads it; their signs of life stand there too."""


class Shown(NamedTuple):
    """What was asked for."""

    metrics: str | None = None
    trace: bool = False
    sentry: bool = False

    def words(self) -> list[str]:
        """The same for the command line of a worker process."""
        words = ["--metrics-port", self.metrics] if self.metrics else []
        return words + ["--trace"] * self.trace + ["--sentry"] * self.sentry


def observe(queue: Queue, shown: Shown) -> None:
    """Subscribe what was asked for, unless the application has done so itself."""
    from tenure.observe.events import Subscriber
    from tenure.observe.logging import Logging

    wanted: list[type[Subscriber]] = [Logging]
    if shown.metrics:
        _check_folder()
        from tenure.observe.prometheus import Prometheus

        wanted.append(Prometheus)
    if shown.trace:
        from tenure.observe.tracing import Tracing

        _warn_without_provider()
        wanted.append(Tracing)
    if shown.sentry:
        from tenure.observe.sentry import Sentry

        _reach_sentry()
        wanted.append(Sentry)
    there = queue.events.subscribers
    queue.observe(*(kind() for kind in wanted if not any(isinstance(each, kind) for each in there)))


def _check_folder() -> None:
    """Before prometheus_client is loaded: it counts into files from then on."""
    folder = os.environ.get(SHARED)
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        msg = f"--metrics-port: ${SHARED} is {folder!r}, and that is no folder that can be written to. Make it, or unset ${SHARED}."
        raise WrongUsage(msg)


def _warn_without_provider() -> None:
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        log.warning(
            "--trace: nobody has set up where spans go, so none are made. Call opentelemetry.trace.set_tracer_provider "
            "in your module, or start the worker with opentelemetry-instrument."
        )


def _reach_sentry() -> None:
    import sentry_sdk
    from sentry_sdk.utils import BadDsn

    if not sentry_sdk.get_client().is_active():
        try:
            sentry_sdk.init()
        except BadDsn as error:
            msg = f"--sentry: $SENTRY_DSN is no address to report to: {error}. It looks like https://KEY@HOST/PROJECT."
            raise WrongUsage(msg) from None
    if sentry_sdk.get_client().dsn is None:
        msg = "--sentry: there is no address to report to. Set $SENTRY_DSN, or call sentry_sdk.init in your module."
        raise WrongUsage(msg)


@contextlib.asynccontextmanager
async def watched(worker: Worker, shown: Shown, *, supervised: bool) -> AsyncIterator[None]:
    """Health and metrics of one worker while it runs; under a supervisor, it is that which serves them."""
    from tenure.observe.health import Health
    from tenure.observe.watchdog import Note, Report, Systemd, Watchdog

    health = Health(worker)
    systemd = None if supervised else Systemd.here()
    reports: list[Report] = [systemd] if systemd else []
    if supervised and SHARED in os.environ:
        reports.append(Note(Path(os.environ[SHARED])))
    with contextlib.ExitStack() as stack:
        if shown.metrics and not supervised:
            from tenure.observe.prometheus import Prometheus
            from tenure.observe.server import Server

            # The application may have subscribed its own, with a registry of its own.
            (registry, *_) = (each.registry for each in worker.queue.events.subscribers if isinstance(each, Prometheus))
            server = stack.enter_context(Server(shown.metrics, registry, health))
            log.info("metrics and health on port %d", server.port)
        stack.enter_context(_said(systemd))
        stack.enter_context(Watchdog(health, *reports))
        async with health:
            yield


@contextlib.contextmanager
def family(shown: Shown, pids: Callable[[], Collection[int]], stopping: Callable[[], bool]) -> Iterator[dict[str, str]]:
    """Health and metrics of all worker processes together. Gives what their environment needs."""
    from tenure.observe.watchdog import Family, Systemd, Watchdog

    systemd = Systemd.here()
    if not shown.metrics and systemd is None:
        yield {}
        return
    with contextlib.ExitStack() as stack:
        folder = os.environ.get(SHARED) or stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-metrics-"))
        signs = Family(Path(folder), pids, stopping=stopping)
        if shown.metrics:
            _check_folder()
            from tenure.observe.server import Server
            from tenure.observe.together import registry_of

            server = stack.enter_context(Server(shown.metrics, registry_of(folder), signs))
            log.info("metrics and health on port %d", server.port)
        stack.enter_context(_said(systemd))
        stack.enter_context(Watchdog(signs, *([systemd] if systemd else [])))
        yield {SHARED: folder}


@contextlib.contextmanager
def _said(systemd: Systemd | None) -> Iterator[None]:
    try:
        yield
    finally:
        if systemd is not None:
            systemd.stopping()
