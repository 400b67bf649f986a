"""The figures in docs/performance.md: put between its marks, so that it never tells others than the results.

python bench/performance.py     writes them again from bench/results/comparison.json
"""

from __future__ import annotations

import re
from collections.abc import Callable

import comparison
import goals
from comparison import RATES, Comparison
from systems import HERE

PAGE = HERE.parent / "docs" / "performance.md"
RESULTS = HERE / "results" / "comparison.json"
RESULTS_FROM_PAGE = "../bench/results"


def about(compared: Comparison) -> list[str]:
    known = {"date": compared.date, **compared.machine, **compared.settings}
    listed = [f"- {name}: {value}" for name, value in known.items()]
    settings = f"Versions and settings of every system: [comparison.md]({RESULTS_FROM_PAGE}/comparison.md)."
    values = f"The values of every repeat: [comparison.json]({RESULTS_FROM_PAGE}/comparison.json)."
    return [*listed, "", settings, values]


def plots(_: Comparison) -> list[str]:
    shown = {"drain": RATES["drain"], "submit_callers": RATES["submit_callers"], "both": RATES["both"]}
    lines = [f"![{title}]({RESULTS_FROM_PAGE}/{name}.svg)\n" for name, title in shown.items()]
    return [*lines, f"![latency]({RESULTS_FROM_PAGE}/latency.svg)"]


def ahead(compared: Comparison) -> list[str]:
    """Every peer that did more than Tenure on the same kind of store, or than Tenure at its best."""
    lines = []
    for figure, title in RATES.items():
        ours = {row.store: value for row in compared.rows if row.kind == "tenure" and (value := row.median(figure))}
        if not ours:
            continue
        for row in compared.rows:
            theirs, limit = row.median(figure), ours.get(row.store, max(ours.values()))
            if row.kind == "peer" and theirs and theirs > limit:
                why = f" ({weak})" if (weak := comparison.weaker(row, compared)) else ""
                lines.append(f"- {title}: {row.label} does {theirs:,.0f}/s, Tenure {limit:,.0f}/s{why}.")
    quickest = [row for row in compared.rows if row.kind == "tenure" and row.median("half")]
    limit = min((row.median("half") or 0 for row in quickest), default=0)
    for row in compared.rows:
        theirs = row.median("half")
        if row.kind == "peer" and theirs and theirs < limit:
            lines.append(f"- latency: {row.label} has a p50 of {theirs:.1f} ms, Tenure {limit:.1f} ms at best.")
    return lines or ["None of them, in this run."]


PARTS: dict[str, Callable[[Comparison], list[str]]] = {
    "machine": about,
    "rates": comparison.rates,
    "plots": plots,
    "costs": comparison.costs,
    "backlogs": comparison.beside,
    "ahead": ahead,
    "trouble": lambda compared: comparison.failures(compared) or ["Everything was measured."],
    "goals": goals.table,
}


def rendered(page: str, compared: Comparison) -> str:
    """The page with the figures of this run between its marks."""
    for name, part in PARTS.items():
        mark, end = f"<!-- {name}: written by bench/compare.py -->", f"<!-- end of {name} -->"
        text = "\n".join(part(compared))
        page, found = re.subn(
            f"{re.escape(mark)}\n.*?{re.escape(end)}",
            lambda _, mark=mark, text=text, end=end: f"{mark}\n{text}\n{end}",
            page,
            flags=re.DOTALL,
        )
        assert found == 1, f"the page has no place for {name}"
    return page


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text(), Comparison.read(RESULTS)))


if __name__ == "__main__":
    main()
