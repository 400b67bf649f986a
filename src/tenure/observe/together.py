"""The metrics of several worker processes as one: each counts into files that outlive it, and those are added up."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

from tenure.errors import MissingExtra

try:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.mmap_dict import MmapedDict
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
except ModuleNotFoundError:
    raise MissingExtra("Prometheus", "metrics") from None

log = logging.getLogger("tenure.observe")

COUNTED = ("counter", "histogram", "summary")
_turns = threading.Lock()
"""A scrape and a burial take turns: in between, what a process counted would stand in two files, or in none."""


class _Together(MultiProcessCollector):
    def collect(self) -> Iterable[Metric]:
        with _turns:
            return list(super().collect())  # type: ignore[no-untyped-call]


def registry_of(folder: str) -> CollectorRegistry:
    """All that was counted in a folder, whether the process that did lives or not."""
    registry = CollectorRegistry()
    _Together(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


def bury(folder: str, pid: int) -> None:
    """A process is gone: what it counted goes into the one file of the dead, what it showed of the moment goes.

    Each scrape reads all files, so a file for each process that ever lived would make it slower and slower.
    """
    with _turns:
        mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
        for kind in COUNTED:
            left = Path(folder, f"{kind}_{pid}.db")
            if left.exists():
                _add(left, Path(folder, f"{kind}_dead.db"))
                left.unlink()


def _add(left: Path, dead: Path) -> None:
    try:
        values = list(MmapedDict.read_all_values_from_file(left))  # type: ignore[no-untyped-call]
    except (struct.error, RuntimeError, ValueError) as error:
        # It died while it made the file. Left there, it would make every scrape fail.
        log.warning("what a dead process counted in %s cannot be read and is left out: %s", left.name, error)
        return
    sums = MmapedDict(str(dead))  # type: ignore[no-untyped-call]
    try:
        for key, value, timestamp, _ in values:
            before, _ = sums.read_value(key)  # type: ignore[no-untyped-call]
            sums.write_value(key, before + value, timestamp)  # type: ignore[no-untyped-call]
    finally:
        sums.close()  # type: ignore[no-untyped-call]
