"""The figures of chaos runs, for a terminal and for the documents."""

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

KEPT = "## What was found"
"""From here on, the page is written by hand and stays."""
PAGE = """# What chaos runs have shown

`make chaos` runs producers and workers as real processes on each store, with everything that is listed here happening to them at random for {seconds:g} seconds; then the faults stop, everything has to end, and
`tenure.testing.check` goes through all histories. Half of the clients have a clock that is an hour or a day wrong, where the store has a time of its own. How long the rest takes is a figure, because that is up to the machine; but when
nothing moves for a minute, the run is stuck: it says what each open task waits for by the store's time, and where each process stands. A run is repeated with its seed:
`python tests/chaos/chaos.py --seed {seed} --seconds {seconds:g} --tasks {tasks} --workers {workers} --stores sqlite` (the faults are then the same ones in the same order; when exactly each meets which statement is up to the machine).

## The last run

Written by `tests/chaos/chaos.py` on {day}; seed {seed}, {workers} workers, 2 producers, leases of 1 s, durable settings everywhere, 2 cores of an AMD EPYC, 24 GiB, shared with other work: a load of {low:.1f} to {high:.1f}, this run included.

{table}

{kept}"""


def rows(runs):
    """Every figure of any run, in the order in which they first came up."""
    names = dict.fromkeys(name for run in runs for name in figures(run))
    return [(name, [figures(run).get(name) for run in runs]) for name in names]


def figures(run):
    faults = dict(sorted(run.faults.items()))
    return {"workers started": run.started, **faults, **run.figures, "broken promises": len(run.broken)}


def show(runs):
    console = Console()
    table = Table(title=f"chaos, seed {runs[0].seed}, {runs[0].seconds:g} s a store")
    table.add_column("what")
    for run in runs:
        table.add_column(run.place.name, justify="right")
    for name, counts in rows(runs):
        bad = name == "broken promises"
        style = ("bold red" if any(counts) else "bold green") if bad else None
        table.add_row(name, *(shown(count) for count in counts), style=style)
    console.print(table)
    for run in runs:
        for sentence in run.broken[:50]:
            console.print(f"{run.place.name}: {sentence}", style="red", highlight=False)
        for line in run.why:
            console.print(f"{run.place.name}: {line}", markup=False, highlight=False, soft_wrap=True)


def shown(count):
    return "-" if count is None else f"{count:,}"


def write(runs, page):
    stores = [run.place.name for run in runs]
    lines = ["| what | " + " | ".join(stores) + " |", "|---|" + "---:|" * len(stores)]
    lines += [f"| {name.strip()} | " + " | ".join(map(shown, counts)) + " |" for name, counts in rows(runs)]
    first = runs[0]
    loads = [load for run in runs for load in run.load]
    before = page.read_text() if page.exists() else ""
    page.write_text(
        PAGE.format(
            seconds=first.seconds,
            seed=first.seed,
            workers=len(first.workers),
            tasks=first.tasks,
            day=datetime.now(UTC).date(),
            low=min(loads),
            high=max(loads),
            table="\n".join(lines),
            kept=before[before.find(KEPT) :] if KEPT in before else "",
        )
    )
