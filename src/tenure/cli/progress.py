"""A progress bar at a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

    from tenure.cli.output import Output


class Progress:
    """How far a long command is. The bar stands on the error stream, away from the answer."""

    def __init__(self, out: Output, what: str, total: int | None) -> None:
        self._bar: rich.progress.Progress | None = None
        if sys.stderr.isatty() and not out.as_json:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """So many more are done."""
        if self._bar is not None:
            self._bar.advance(self._task, count)
