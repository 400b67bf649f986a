"""Many seeds of the simulation, on all processors, or the story of one: `make simulate SEEDS=5000`, `make simulate SEED=17`.

With `--mutants` it looks for the seeds that catch the planted bugs, and writes them to docs/simulation.md.
"""

import argparse
import os
import secrets
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from catching import write_table
from rich.console import Console
from rich.table import Table
from simulated.simulation import simulate
from simulated.telling import report


def run(seeds):
    """The sums of some seeds, and which of them broke something."""
    figures, faults, broken = Counter(), Counter(), {}
    for seed in seeds:
        outcome = simulate(seed)
        figures += outcome.figures
        faults += outcome.faults
        if outcome.broken:
            broken[seed] = outcome.broken
    return figures, faults, broken


def run_all(first, count, processes):
    begun = time.monotonic()
    chunks = [range(start, min(start + 50, first + count)) for start in range(first, first + count, 50)]
    figures, faults, broken = Counter(), Counter(), {}
    with ProcessPoolExecutor(processes) as pool:
        for some_figures, some_faults, some_broken in pool.map(run, chunks):
            figures += some_figures
            faults += some_faults
            broken |= some_broken
    return figures, faults, broken, time.monotonic() - begun


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=2000, help="how many")
    options.add_argument("--first", type=int, help="the first of them; by default new ones")
    options.add_argument("--seed", type=int, help="tell the story of this one")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--mutants", action="store_true", help="find the seeds that catch the planted bugs")
    given = options.parse_args()
    console = Console()
    if given.mutants:
        write_table(Path(__file__).parents[2] / "docs" / "simulation.md")
        return 0
    if given.seed is not None:
        console.print(report(given.seed), markup=False, highlight=False, soft_wrap=True)
        return 1 if simulate(given.seed).broken else 0
    first = given.first if given.first is not None else secrets.randbelow(10**9)
    figures, faults, broken, seconds = run_all(first, given.seeds, given.processes)
    table = Table(title=f"seeds {first} to {first + given.seeds - 1}, {60 * given.seeds / seconds:,.0f} a minute")
    table.add_column("what")
    table.add_column("count", justify="right")
    for name, count in {**figures, **{f"fault: {name}": count for name, count in faults.items()}}.items():
        table.add_row(name, f"{count:,}")
    table.add_row("faults in all", f"{faults.total():,}")
    table.add_row("seeds that broke something", f"{len(broken):,}", style="bold red" if broken else "bold green")
    console.print(table)
    for seed, found in list(broken.items())[:20]:
        console.print(f"seed {seed}: {', '.join(found)}", highlight=False)
    if broken:
        console.print(report(min(broken)), markup=False, highlight=False, soft_wrap=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
