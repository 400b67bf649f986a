"""What was aimed at, as ratios within one run, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comparison import NOTHING, Comparison, Row

SQLITE, POSTGRES = "tenure-sqlite", "tenure-postgresql"
STORES = {SQLITE: "SQLite", POSTGRES: "PostgreSQL"}
DRIVERS = {SQLITE: "bare-sqlite", POSTGRES: "bare-asyncpg"}


@dataclass(frozen=True)
class Goal:
    """One aim: at least, or at most, so much of something. The value is None where it was not measured."""

    what: str
    name: str
    of: str
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.least if self.least is not None else self.value <= (self.most or 0)

    def line(self) -> str:
        aim = f"at least {self.least:,g}" if self.least is not None else f"at most {self.most:,g}"
        value = NOTHING if self.value is None else f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.2f}"
        met = {None: "not measured", True: "yes", False: "**no**"}[self.met]
        return f"| {self.what} | {STORES[self.name]} | {self.of}: {aim} | {value} | {met} |"


def table(compared: Comparison) -> list[str]:
    return ["| what | on | aim | measured | met |", "|---|---|---|---|---|", *(goal.line() for goal in goals(compared))]


def goals(compared: Comparison) -> list[Goal]:
    run = _Run(compared)
    return [*_submitting(run), *_working(run), *_waiting(run), *_beside(run)]


class _Run:
    """The medians of one run, and their ratios."""

    def __init__(self, compared: Comparison) -> None:
        self._compared = compared

    def of(self, name: str, figure: str) -> float | None:
        row = self._compared.row(name)
        return row and row.median(figure)

    def ratio(self, name: str, figure: str, other: float | None) -> float | None:
        value = self.of(name, figure)
        return value / other if value and other else None

    def best(self, figure: str, which: Callable[[Row], bool] = lambda _: True) -> float | None:
        rows = [row for row in self._compared.rows if row.kind == "peer" and which(row)]
        return max((value for row in rows if (value := row.median(figure))), default=None)


def _on_postgres(row: Row) -> bool:
    return row.store == "postgresql"


def _submitting(run: _Run) -> list[Goal]:
    one, callers, bulk = "submit one by one", "submit, 50 callers", "submit in bulk"
    best_python = run.best("submit_callers", lambda row: row.language == "python")
    best_one, best_callers = run.best("submit_one", _on_postgres), run.best("submit_callers", _on_postgres)
    huey = run.of("huey-sqlite", "submit_one")
    bare = [
        Goal(one, name, "of the bare driver", run.ratio(name, "submit_one", run.of(driver, "submit_one")), least=0.8)
        for name, driver in DRIVERS.items()
    ]
    return [
        *bare,
        Goal(one, SQLITE, "of Huey", run.ratio(SQLITE, "submit_one", huey), least=1),
        Goal(one, POSTGRES, "of the best PostgreSQL peer", run.ratio(POSTGRES, "submit_one", best_one), least=1),
        Goal(callers, SQLITE, "tasks/s", run.of(SQLITE, "submit_callers"), least=20_000),
        Goal(callers, SQLITE, "of the best Python peer", run.ratio(SQLITE, "submit_callers", best_python), least=2.5),
        Goal(callers, POSTGRES, "tasks/s", run.of(POSTGRES, "submit_callers"), least=15_000),
        Goal(callers, POSTGRES, "of the best PostgreSQL peer",
             run.ratio(POSTGRES, "submit_callers", best_callers), least=4),
        Goal(bulk, SQLITE, "tasks/s", run.of(SQLITE, "submit_bulk"), least=100_000),
        Goal(bulk, POSTGRES, "tasks/s", run.of(POSTGRES, "submit_bulk"), least=80_000),
        Goal(bulk, POSTGRES, "of the best peer", run.ratio(POSTGRES, "submit_bulk", run.best("submit_bulk")), least=1.4),
    ]  # fmt: skip


def _working(run: _Run) -> list[Goal]:
    drain, both, far = "drain, 1 process", "both at once", "drain, server 2 ms away"
    but_graphile = run.best("drain", lambda row: row.name != "graphile-worker")
    huey, bare = run.of("huey-sqlite", "drain"), run.of("bare-asyncpg", "drain")
    bullmq, best_both = run.of("bullmq", "both"), run.best("both", _on_postgres)
    return [
        Goal(drain, SQLITE, "tasks/s", run.of(SQLITE, "drain"), least=35_000),
        Goal(drain, SQLITE, "of Huey", run.ratio(SQLITE, "drain", huey), least=7),
        Goal(drain, SQLITE, "of the best peer but graphile-worker", run.ratio(SQLITE, "drain", but_graphile), least=1),
        Goal(drain, POSTGRES, "of the best peer", run.ratio(POSTGRES, "drain", run.best("drain")), least=1),
        Goal(drain, POSTGRES, "of the bare driver", run.ratio(POSTGRES, "drain", bare), least=0.8),
        Goal(drain, POSTGRES, "transactions per 1000 tasks", run.of(POSTGRES, "requests"), most=60),
        Goal(
            far,
            POSTGRES,
            "of the same without the way",
            run.ratio(POSTGRES, "far", run.of(POSTGRES, "near")),
            least=0.7,
        ),
        Goal(both, SQLITE, "tasks/s", run.of(SQLITE, "both"), least=10_000),
        Goal(both, SQLITE, "of BullMQ", run.ratio(SQLITE, "both", bullmq), least=1),
        Goal(both, POSTGRES, "of the best PostgreSQL peer", run.ratio(POSTGRES, "both", best_both), least=5),
    ]


def _waiting(run: _Run) -> list[Goal]:
    most = {SQLITE: 6, POSTGRES: 8}
    halves = [Goal("latency", name, "p50, ms", run.of(name, "half"), most=2) for name in STORES]
    tails = [Goal("latency", name, "p99, ms", run.of(name, "most"), most=most[name]) for name in STORES]
    slots = [
        Goal("handlers that wait, 200 slots", name, "% of the ideal", run.of(name, "waiting"), least=95)
        for name in STORES
    ]
    memory = [Goal("idle worker", name, "MiB", run.of(name, "memory_idle"), most=60) for name in STORES]
    processor = [Goal("idle worker", name, "% of a core", run.of(name, "idle"), most=1) for name in STORES]
    return [*halves, *tails, *slots, *memory, *processor]


def _beside(run: _Run) -> list[Goal]:
    shapes = {"beside_ended": "ended", "beside_scheduled": "scheduled", "beside_ordered": "blocked"}
    return [
        Goal(f"drain beside {shape} tasks", name, "% of the empty store", run.of(name, figure), least=90)
        for figure, shape in shapes.items()
        for name in STORES
    ]
