"""The machine, the figures, and the pages that tell both."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SAMPLES_OF_FSYNC = 100


@dataclass
class Figure:
    """One thing that was measured, once per repeat, beside its floor."""

    what: str
    unit: str
    values: list[float] = field(default_factory=list)
    floor: str = ""
    floor_values: list[float] = field(default_factory=list)

    def add(self, value: float, floor_value: float | None = None) -> None:
        self.values.append(value)
        if floor_value is not None:
            self.floor_values.append(floor_value)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def to_dict(self) -> dict[str, Any]:
        known = {"what": self.what, "unit": self.unit, "median": self.median, "values": self.values}
        if self.floor_values:
            known |= {
                "floor": self.floor,
                "floor_median": statistics.median(self.floor_values),
                "floor_values": self.floor_values,
            }
        return known

    def row(self) -> str:
        floor, share = "", ""
        if self.floor_values:
            bottom = statistics.median(self.floor_values)
            floor = f"{shown(bottom)} ({self.floor})"
            share = f"{self.median / bottom:.0%}" if self.unit == "tasks/s" else ""
        spread = f"{shown(min(self.values))} to {shown(max(self.values))}" if len(self.values) > 1 else ""
        return f"| {self.what} | **{shown(self.median)} {self.unit}** | {spread} | {floor} | {share} |"


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def machine(folder: Path) -> dict[str, str]:
    """What the figures depend on."""
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "write and fsync of 4 KiB": f"{_fsync_seconds(folder) * 1000:.2f} ms",
        "Python": platform.python_version(),
        "busy before the run": f"load {os.getloadavg()[0]:.1f}",
    }


def write(
    folder: Path, name: str, title: str, settings: dict[str, str], about: dict[str, str], figures: Sequence[Figure]
) -> None:
    """The page for people and the file for programs."""
    folder.mkdir(exist_ok=True)
    date = datetime.now(UTC).date().isoformat()
    known = {"date": date, "machine": about, "settings": settings, "figures": [figure.to_dict() for figure in figures]}
    (folder / f"{name}.json").write_text(json.dumps(known, indent=1) + "\n")
    (folder / f"{name}.md").write_text(page(title, date, settings, about, figures))


def quote(readme: Path, sentence: str) -> None:
    """Put a sentence between the marks of the README, so that it never tells other figures than the results."""
    before, mark, rest = readme.read_text().partition("<!-- speed: written by bench/sqlite.py -->\n")
    _, end, after = rest.partition("<!-- end of speed -->")
    readme.write_text(f"{before}{mark}{sentence}\n{end}{after}")


def page(title: str, date: str, settings: dict[str, str], about: dict[str, str], figures: Sequence[Figure]) -> str:
    listed = [f"- {name}: {value}" for name, value in {"date": date, **about, **settings}.items()]
    head = ["| what | median | from … to | floor | share of it |", "|---|---|---|---|---|"]
    return "\n".join([f"# {title}", "", *listed, "", *head, *(figure.row() for figure in figures), ""])


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _file_system(folder: Path) -> str:
    """A folder in memory would make every fsync free, and every figure wrong."""
    if not Path("/proc/mounts").exists():
        return "unknown"
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    around = [(place, kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(around, key=lambda mount: len(mount[0]))[1]


def _fsync_seconds(folder: Path) -> float:
    path = folder / "fsync"
    took = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SAMPLES_OF_FSYNC):
            begin = time.monotonic()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took.append(time.monotonic() - begin)
    path.unlink()
    return statistics.median(took)
