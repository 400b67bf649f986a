"""The metrics of several worker processes as one: each counts into files that outlive it, and those are added up."""

from __future__ import annotations

from tenure.errors import MissingExtra

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
except ModuleNotFoundError:
    raise MissingExtra("Prometheus", "metrics") from None


def registry_of(folder: str) -> CollectorRegistry:
    """All that was counted in a folder, whether the process that did lives or not."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


def forget_gauges(folder: str, pid: int) -> None:
    """A process is gone: what it counted stays, what it showed of the moment goes."""
    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
