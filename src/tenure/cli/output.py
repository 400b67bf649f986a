"""How commands speak: colour and tables at a terminal, plain text in a pipe, JSON when asked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES = {
    "pending": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
    "expired": "bright_black",
    "archived": "bright_black",
}


class Output:
    """Where a command writes, and in which of the three ways."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._console: Console | None = None

    @property
    def at_terminal(self) -> bool:
        """Whether a person is looking."""
        return not self.as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def console(self) -> Console:
        """The terminal, as rich sees it."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False)
        return self._console

    def emit(self, value: Any) -> None:
        """One JSON object on one line."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def say(self, text: str = "", style: str = "") -> None:
        """A line of plain words; the style shows at a terminal only, and JSON leaves it out."""
        if self.as_json:
            return
        if self.at_terminal and style:
            self.console.print(text, style=style, markup=False)
        else:
            sys.stdout.write(text + "\n")

    def status_line(self, text: str, status: str) -> None:
        """A line in which the status has its colour."""
        if not self.at_terminal:
            sys.stdout.write(text + "\n")
            return
        from rich.text import Text

        line = Text(text)
        line.highlight_words([status], STYLES.get(status, ""))
        self.console.print(line, soft_wrap=True)

    def note(self, text: str) -> None:
        """A line beside the answer, for people: it goes to the error stream."""
        sys.stderr.write(text + "\n")

    def fields(self, pairs: Iterable[tuple[str, str]]) -> None:
        """One `name: value` per line."""
        for name, value in pairs:
            if self.at_terminal:
                from rich.text import Text

                self.console.print(Text.assemble((f"{name}: ", "bold"), (value, STYLES.get(value, ""))), soft_wrap=True)
            else:
                sys.stdout.write(f"{name}: {value}\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        right: Sequence[str] = (),
        total: Sequence[object] = (),
    ) -> None:
        """Rows under headings, and a total below; the columns named by `right` are set flush right."""
        rows = [*rows, total] if total else rows
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        if self.at_terminal:
            from rich import box
            from rich.measure import Measurement
            from rich.table import Table

            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
            for column in columns:
                table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
            for number, row in enumerate(cells, start=1):
                last = number == len(cells) and bool(total)
                table.add_row(
                    *(styled(cell) for cell in row),
                    end_section=bool(total) and number == len(cells) - 1,
                    style="bold" if last else None,
                )
            # A narrow terminal breaks long lines itself; squeezed columns would be harder to read and to copy.
            table.width = Measurement.get(self.console, self.console.options.update(max_width=10_000), table).maximum
            self.console.print(table, soft_wrap=True, crop=False)
            return
        widths = [max(len(line[index]) for line in [list(columns), *cells]) for index in range(len(columns))]
        for line in [list(columns), *cells]:
            padded = [
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, cell, width in zip(columns, line, widths, strict=True)
            ]
            sys.stdout.write("  ".join(padded).rstrip() + "\n")


def styled(word: str) -> Text:
    """A status in its colour; any other word as it is."""
    from rich.text import Text

    return Text(word, style=STYLES.get(word, ""))
