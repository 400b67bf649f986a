"""Which seed catches which planted bug."""

import re

from mutants import MUTANTS, planted
from simulated.simulation import simulate

BEGIN, END = "<!-- mutants -->\n", "<!-- end of mutants -->\n"
ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<invariant>[^|]+) \| (?P<seed>\d+) \|$", re.MULTILINE)
PATIENCE = 1000


def caught_by(mutant, seed):
    """Whether this seed shows that the invariant is broken."""
    with planted(mutant):
        return mutant.invariant in simulate(seed).broken


def first_seed(mutant, start=0):
    """The first seed from here on that catches it."""
    for seed in range(start, start + PATIENCE):
        if caught_by(mutant, seed):
            return seed
    raise AssertionError(f"{mutant.what!r} was not caught by {PATIENCE} seeds from {start} on")


def rows(page):
    """The table as it stands on the page: (what, invariant) and the seed."""
    text = page.read_text()
    table = text[text.index(BEGIN) : text.index(END)]
    return {(row["what"], row["invariant"]): int(row["seed"]) for row in ROW.finditer(table)}


def write_table(page):
    """Look for all seeds anew and put them on the page."""
    lines = ["| planted bug | invariant that it breaks | seed |\n", "|---|---|---:|\n"]
    lines += [f"| {mutant.what} | {mutant.invariant} | {first_seed(mutant)} |\n" for mutant in MUTANTS]
    text = page.read_text()
    page.write_text(text[: text.index(BEGIN)] + BEGIN + "".join(lines) + text[text.index(END) :])
