"""Every system on the same work, in one go: python bench/compare.py

    python bench/compare.py              everything; an hour or more
    python bench/compare.py --short      less work, once; under ten minutes when the peers are installed
    python bench/compare.py tenure-sqlite huey-sqlite    only these

Writes a page, a file for programs and plots into bench/results (the short form into bench/results/short).
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import comparison
import performance
import report
import servers
from backlogs import drains_beside
from bare import Bare
from comparison import REDIS, Comparison, Row
from measuring import CONCURRENCY, Measurement, Size
from processes import Failed
from sqlite import RESULTS
from systems import NotInstalled, System, all_systems, install

USUAL = Size(tasks=20_000, one_by_one=1000, samples=300, idle=5.0)
SHORT = Size(tasks=3_000, one_by_one=200, samples=50, idle=1.0, everything=False)

BACKLOG_STORES = ("sqlite", "postgresql")
"""Elsewhere a million tasks would take the day."""


def main() -> None:
    choices = _choices()
    # Ended from outside, it still ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    systems = [system for system in all_systems() if not choices.systems or system.name in choices.systems]
    size = SHORT if choices.short else USUAL
    if choices.tasks:
        size = replace(size, tasks=choices.tasks, one_by_one=max(choices.tasks // 20, 20))
    folder = choices.results or (RESULTS / "short" if choices.short else RESULTS)
    begin = time.monotonic()
    for compared in run(systems, size, choices):
        # Also in between, so that a run that is ended early has not been for nothing.
        compared.settings["took"] = f"{(time.monotonic() - begin) / 60:.0f} minutes"
        comparison.write(folder, compared)
        if folder == RESULTS:
            performance.main()
    print((folder / "comparison.md").read_text())


def run(systems: list[System], size: Size, choices: argparse.Namespace) -> Iterator[Comparison]:
    """The comparison after every system, and at the end."""
    rows = {system.name: Row.of(system) for system in systems}
    ready = [system for system in systems if _installed(system, rows[system.name])]
    stores = {system.store for system in ready}
    with (
        servers.started(choices.folder, stores, choices.appendfsync) as places,
        tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=choices.folder) as made,
    ):
        folder = Path(made)
        compared = Comparison(
            machine={**report.machine(folder), **places.versions()},
            settings=_settings(size, choices),
            rows=[],
        )
        bare = Bare(places, folder, size)
        for repeat in range(choices.repeats):
            bare.measure(stores)
            for system in ready:
                print(f"{repeat + 1}/{choices.repeats} {system.name}", file=sys.stderr, flush=True)
                _measure(system, rows[system.name], size, places, folder)
                compared.rows = [*rows.values(), *bare.rows()]
                yield compared
        for system in ready:
            if system.is_tenure and system.store in BACKLOG_STORES and choices.backlog:
                drains_beside(system, rows[system.name], size, places, folder, choices)
        yield compared


def _measure(system: System, row: Row, size: Size, places: servers.Places, folder: Path) -> None:
    measurement = Measurement(system, size, places, folder)
    try:
        measurement.run()
    except Failed as error:
        measurement.failures["start"] = str(error)
    row.add(measurement.figures, measurement.failures)
    row.settings = measurement.settings


def _installed(system: System, row: Row) -> bool:
    try:
        install(system)
        row.version = system.version()
    except NotInstalled as error:
        row.add({}, {"installation": str(error)})
        return False
    return True


def _settings(size: Size, choices: argparse.Namespace) -> dict[str, str]:
    return {
        "tasks": f"{size.tasks:,} (one by one {size.one_by_one:,}; {size.samples} to an idle worker); "
        "a slow system gets a share of them, which is said beside it",
        "worker": f"concurrency {CONCURRENCY} where it can be chosen; client, worker and server on the same machine",
        "durability on SQLite": "WAL, synchronous=FULL",
        "durability on PostgreSQL": "its defaults: fsync and synchronous_commit on",
        REDIS: f"Valkey with an append-only file, appendfsync {choices.appendfsync}"
        + (": weaker, the last second can be lost" if choices.appendfsync == "everysec" else ""),
        "repeats": f"{choices.repeats}, the medians are shown",
    }


def _choices() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "systems", nargs="*", metavar="system", help="only these; their names are in peers/systems.toml"
    )
    parser.add_argument("--short", action="store_true", help="less work and one repeat")
    parser.add_argument("--tasks", type=int, help="tasks of a drain (20000)")
    parser.add_argument(
        "--backlog", type=int, help="tasks that stand in the way of Tenure's (1000000); 0: leave it out"
    )
    parser.add_argument("--repeats", type=int, help="how often everything is measured (3)")
    parser.add_argument("--appendfsync", choices=["everysec", "always"], default="everysec", help="of the Redis peers")
    parser.add_argument("--folder", type=Path, help="where the files are made; a real disk, not memory")
    parser.add_argument("--results", type=Path, help="where the results are written")
    choices = parser.parse_args()
    unknown = set(choices.systems) - {system.name for system in all_systems()}
    if unknown:
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    usual = {"backlog": 20_000, "repeats": 1} if choices.short else {"backlog": 1_000_000, "repeats": 3}
    for name, value in usual.items():
        if getattr(choices, name) is None:
            setattr(choices, name, value)
    return choices


if __name__ == "__main__":
    main()
