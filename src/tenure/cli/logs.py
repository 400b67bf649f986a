"""Where a worker's log lines go."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.cli.output import Output

FORMAT = "%(asctime)s %(levelname)s %(message)s"


class LogFormat(StrEnum):
    """How a worker's log lines look."""

    text = "text"
    json = "json"


class LogLevel(StrEnum):
    """From which level on lines are written."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def set_up_logging(
    out: Output,
    *,
    verbose: bool,
    style: str | None = None,
    level: str | None = None,
) -> Console | None:
    """Log lines on the error stream, as text or as JSON; at a terminal through a console that a live line can share.

    With `--json` they go to where the answers go.
    """
    from tenure.observe.logging import JsonHandler, TextLines

    console = None
    handler: logging.Handler
    if out.as_json or style == LogFormat.json:
        handler = JsonHandler(sys.stdout if out.as_json else sys.stderr)
    elif out.at_terminal and sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True, highlight=False, soft_wrap=True)
        handler = _ConsoleHandler(console)
        handler.setFormatter(TextLines("%(asctime)s %(message)s", "%H:%M:%S"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(TextLines(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel((level or (LogLevel.debug if verbose else LogLevel.info)).upper())
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return console


class _ConsoleHandler(logging.Handler):
    STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}  # noqa: RUF012 - never changed

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = self.STYLES.get(record.levelname, "")
        try:
            self._console.print(self.format(record), style=style, markup=False, emoji=False)
        except Exception:
            self.handleError(record)
