"""What was aimed at, as ratios within one run, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from comparison import Comparison, Row

SQLITE, POSTGRES = "tenure-sqlite", "tenure-postgresql"


class Goal(NamedTuple):
    """One aim; `value` is what was measured of it, None when that is missing."""

    what: str
    of: str
    aim: str
    value: float | None
    met: bool | None

    def line(self) -> str:
        shown = "-" if self.value is None else f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.2f}"
        word = {None: "not measured", True: "yes", False: "**no**"}[self.met]
        return f"| {self.what} | {self.of} | {self.aim} | {shown} | {word} |"


def table(compared: Comparison) -> list[str]:
    head = ["| what | on | aim | measured | met |", "|---|---|---|---|---|"]
    return [*head, *(goal.line() for goal in goals(compared))]


def goals(compared: Comparison) -> Iterator[Goal]:
    """Each aim is a smallest or a largest value, of a figure or of a ratio to others of the same run."""
    on = {SQLITE: "SQLite", POSTGRES: "PostgreSQL"}
    for what, name, figure, aim, value, enough in _aims(compared):
        met = None if value is None else enough(value)
        yield Goal(what, on[name], f"{figure} {aim}", value, met)


def _aims(
    compared: Comparison,
) -> Iterator[tuple[str, str, str, str, float | None, Callable[[float], bool]]]:
    def own(name: str, figure: str) -> float | None:
        row = compared.row(name)
        return row and row.median(figure)

    def times(name: str, figure: str, other: float | None) -> float | None:
        value = own(name, figure)
        return value / other if value and other else None

    def best(figure: str, which: Callable[[Row], bool] = lambda _: True) -> float | None:
        rows = [row for row in compared.rows if row.kind == "peer" and which(row)]
        return max((value for row in rows if (value := row.median(figure))), default=None)

    def least(low: float) -> tuple[str, Callable[[float], bool]]:
        return f"at least {low:,g}", lambda value: value >= low

    def most(high: float) -> tuple[str, Callable[[float], bool]]:
        return f"at most {high:,g}", lambda value: value <= high

    def on_postgres(row: Row) -> bool:
        return row.store == "postgresql"

    def in_python(row: Row) -> bool:
        return row.language == "python"

    def not_graphile(row: Row) -> bool:
        return row.name != "graphile-worker"

    bare, huey = {SQLITE: "bare-sqlite", POSTGRES: "bare-asyncpg"}, own("huey-sqlite", "submit_one")
    aims: list[tuple[str, str, str, float | None, tuple[str, Callable[[float], bool]]]] = []
    for name, driver in bare.items():
        driven = own(driver, "submit_one")
        aims.append(("submit one by one", name, "of the bare driver:", times(name, "submit_one", driven), least(0.8)))
    aims += [
        ("submit one by one", SQLITE, "of Huey:", times(SQLITE, "submit_one", huey), least(1)),
        ("submit one by one", POSTGRES, "of the best PostgreSQL peer:",
         times(POSTGRES, "submit_one", best("submit_one", on_postgres)), least(1)),
        ("submit, 50 callers", SQLITE, "tasks/s:", own(SQLITE, "submit_callers"), least(20_000)),
        ("submit, 50 callers", SQLITE, "of the best Python peer:",
         times(SQLITE, "submit_callers", best("submit_callers", in_python)), least(2.5)),
        ("submit, 50 callers", POSTGRES, "tasks/s:", own(POSTGRES, "submit_callers"), least(15_000)),
        ("submit, 50 callers", POSTGRES, "of the best PostgreSQL peer:",
         times(POSTGRES, "submit_callers", best("submit_callers", on_postgres)), least(4)),
        ("submit in bulk", SQLITE, "tasks/s:", own(SQLITE, "submit_bulk"), least(100_000)),
        ("submit in bulk", POSTGRES, "tasks/s:", own(POSTGRES, "submit_bulk"), least(80_000)),
        ("submit in bulk", POSTGRES, "of the best peer:",
         times(POSTGRES, "submit_bulk", best("submit_bulk")), least(1.4)),
        ("drain, 1 process", SQLITE, "tasks/s:", own(SQLITE, "drain"), least(35_000)),
        ("drain, 1 process", SQLITE, "of Huey:", times(SQLITE, "drain", own("huey-sqlite", "drain")), least(7)),
        ("drain, 1 process", SQLITE, "of the best peer but graphile-worker:",
         times(SQLITE, "drain", best("drain", not_graphile)), least(1)),
        ("drain, 1 process", POSTGRES, "of the best peer:", times(POSTGRES, "drain", best("drain")), least(1)),
        ("drain, 1 process", POSTGRES, "of the bare driver:",
         times(POSTGRES, "drain", own("bare-asyncpg", "drain")), least(0.8)),
        ("both at once", SQLITE, "tasks/s:", own(SQLITE, "both"), least(10_000)),
        ("both at once", SQLITE, "of BullMQ:", times(SQLITE, "both", own("bullmq", "both")), least(1)),
        ("both at once", POSTGRES, "of the best PostgreSQL peer:",
         times(POSTGRES, "both", best("both", on_postgres)), least(5)),
        ("latency", SQLITE, "p50, ms:", own(SQLITE, "half"), most(2)),
        ("latency", SQLITE, "p99, ms:", own(SQLITE, "most"), most(6)),
        ("latency", POSTGRES, "p50, ms:", own(POSTGRES, "half"), most(2)),
        ("latency", POSTGRES, "p99, ms:", own(POSTGRES, "most"), most(8)),
        ("server 2 ms away", POSTGRES, "of the drain through the same proxy without delay:",
         times(POSTGRES, "far", own(POSTGRES, "near")), least(0.7)),
        ("transactions per 1000 tasks", POSTGRES, "", own(POSTGRES, "requests"), most(60)),
    ]  # fmt: skip
    for name in bare:
        aims += [
            ("beside ended tasks", name, "% of the empty store:", own(name, "beside_ended"), least(90)),
            ("beside scheduled tasks", name, "% of the empty store:", own(name, "beside_scheduled"), least(90)),
            ("beside a blocked key", name, "% of the empty store:", own(name, "beside_ordered"), least(90)),
            ("I/O-bound, 200 slots", name, "% of the ideal:", own(name, "waiting"), least(95)),
            ("idle worker", name, "MiB:", own(name, "memory_idle"), most(60)),
            ("idle worker", name, "% of a core:", own(name, "idle"), most(1)),
        ]
    for what, name, figure, value, (aim, enough) in aims:
        yield what, name, figure, aim, value, enough
