"""The figures of a comparison, and what is written of them: a page, a file for programs, plots."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import plots
from systems import STORES, System

RATES = {
    "submit_one": "submit one by one",
    "submit_callers": "submit, 50 callers",
    "submit_bulk": "submit in bulk of 1000",
    "drain": "drain, 1 process",
    "drain_two": "drain, 2 processes",
    "both": "both at once",
    "far": "drain, server 2 ms away",
}
"""Tasks per second: more is better."""

COSTS = {
    "processor": "processor seconds per 10,000 tasks",
    "memory_busy": "MiB at most, busy",
    "memory_idle": "MiB, idle",
    "idle": "% of a core, idle",
    "requests": "transactions or commands per 1000 tasks",
    "waiting": "10 ms handlers, % of the ideal",
}
SAME_WORK = (
    "Every system ran the same tasks with a handler that does nothing; every run checked that each task ran exactly "
    "once. Rates are tasks per second. More is better, except for the latency."
)
FOOTNOTES = (
    "† weaker than a commit on the disk for every step, or not the real service: the table of versions says how.",
    "The latency of the bare drivers: an insert, a word to the other process (a pipe, or NOTIFY), and its claim.",
)
NOTHING = "-"
REDIS = "durability on Redis"
BACKLOGS = {
    "beside_ended": "ended",
    "beside_scheduled": "scheduled",
    "beside_ordered": "behind one ordering key",
}


@dataclass
class Row:
    """One system: each figure once per repeat, and what went wrong instead."""

    name: str
    title: str
    store: str
    language: str = "python"
    note: str = ""
    share: float = 1.0
    version: str = ""
    settings: str = ""
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, system: System) -> Row:
        return cls(system.name, system.title, system.store, system.language, system.note, system.share)

    @property
    def kind(self) -> str:
        """Tenure, a peer, or a floor."""
        if self.name.startswith("tenure-"):
            return "tenure"
        return "floor" if self.title.startswith("*") else "peer"

    @property
    def label(self) -> str:
        """The title, with the store and the language where they are not Tenure's."""
        if self.kind != "peer":
            return self.title
        return f"{self.title} ({STORES[self.store]}{', node' if self.language == 'node' else ''})"

    def add(self, figures: dict[str, float], failures: dict[str, str]) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)
        self.failures |= failures

    def median(self, name: str) -> float | None:
        values = self.figures.get(name)
        return statistics.median(values) if values else None

    def cell(self, name: str) -> str:
        value = self.median(name)
        if value is None:
            return NOTHING
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


@dataclass
class Comparison:
    """One run of everything."""

    machine: dict[str, str]
    settings: dict[str, str]
    rows: list[Row]
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    @classmethod
    def read(cls, path: Path) -> Comparison:
        known: dict[str, Any] = json.loads(path.read_text())
        known["rows"] = [Row(**row) for row in known["rows"]]
        return cls(**known)

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)


def write(folder: Path, compared: Comparison) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.json").write_text(json.dumps(asdict(compared), indent=1) + "\n")
    (folder / "comparison.md").write_text(page(compared))
    for name, title in RATES.items():
        bars = [(row.label.replace("*", ""), row.median(name), row.kind) for row in compared.rows]
        (folder / f"{name}.svg").write_text(plots.bars(f"{title}, tasks per second", bars))
    spans = [(row.label.replace("*", ""), row.median("half"), row.median("most"), row.kind) for row in compared.rows]
    (folder / "latency.svg").write_text(plots.spans("from submit to the handler, ms: p50 to p99", spans))


def page(compared: Comparison) -> str:
    about = {"date": compared.date, **compared.machine, **compared.settings}
    plotted = [f"![{title}]({name}.svg)" for name, title in {**RATES, "latency": "latency"}.items()]
    return "\n".join(
        [
            "# Tenure and its peers", "", *(f"- {name}: {value}" for name, value in about.items()), "",
            SAME_WORK, "",
            *rates(compared), "", "## What it costs", "", *costs(compared), "",
            "## Beside a backlog", "", *beside(compared), "",
            "## What did not work", "", *(failures(compared) or ["Everything was measured."]), "",
            "## Versions and settings", "", *versions(compared), "", "## Plots", "", *plotted, "",
        ]
    )  # fmt: skip


def rates(compared: Comparison) -> list[str]:
    """The main table: what each system does in a second, and how soon it begins."""
    lines = [_line(["system", *RATES.values(), "p50 / p99, ms"]), "|---" * (len(RATES) + 2) + "|"]
    for row in compared.rows:
        latency = f"{row.cell('half')} / {row.cell('most')}" if row.median("half") is not None else NOTHING
        label = f"{row.label} †" if weaker(row, compared) else row.label
        lines.append(_line([label, *(row.cell(name) for name in RATES), latency]))
    return [*lines, "", *FOOTNOTES]


def costs(compared: Comparison) -> list[str]:
    lines = [_line(["system", *COSTS.values()]), "|---" * (len(COSTS) + 1) + "|"]
    rows = [row for row in compared.rows if any(name in row.figures for name in COSTS)]
    return [*lines, *(_line([row.label, *(row.cell(name) for name in COSTS)]) for row in rows)]


def beside(compared: Comparison) -> list[str]:
    """What is left of Tenure's drain when many other tasks stand in the store."""
    lines = [_line(["drain of other tasks, % of the empty store", *BACKLOGS.values()]), "|---|---|---|---|"]
    rows = [row for row in compared.rows if any(name in row.figures for name in BACKLOGS)]
    return [*lines, *(_line([row.label, *(row.cell(name) for name in BACKLOGS)]) for row in rows)]


def failures(compared: Comparison) -> list[str]:
    """Whoever could not be measured, and why: nobody is left out silently."""
    return [f"- {row.label}, {stage}: {why}" for row in compared.rows for stage, why in row.failures.items()]


def versions(compared: Comparison) -> list[str]:
    lines = [_line(["system", "version", "tasks", "settings", "weaker where"]), "|---|---|---|---|---|"]
    for row in compared.rows:
        share = "all" if row.share == 1 else f"{row.share:.0%}"
        lines.append(_line([row.label, row.version, share, row.settings, weaker(row, compared)]))
    return lines


def weaker(row: Row, compared: Comparison) -> str:
    """How its promise falls short of a commit on the disk for every step; nothing where it does not."""
    once_a_second = row.store == "redis" and "everysec" in compared.settings.get(REDIS, "")
    return "; ".join(part for part in (row.note, "appendfsync everysec" if once_a_second else "") if part)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
