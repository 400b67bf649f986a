"""Where a worker's log lines go."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.cli.output import Output

FORMAT = "%(asctime)s %(levelname)s %(message)s"
ABOUT = ("task_id", "task_type", "attempt", "worker_id")


def set_up_logging(out: Output, *, verbose: bool) -> Console | None:
    """Log lines on the error stream, or as JSON; at a terminal through a console that a live line can share."""
    console = None
    handler: logging.Handler
    if out.as_json:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(_JsonLines())
    elif out.at_terminal and sys.stderr.isatty():
        from rich.console import Console

        console = Console(stderr=True, highlight=False, soft_wrap=True)
        handler = _ConsoleHandler(console)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    return console


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in ABOUT if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class _ConsoleHandler(logging.Handler):
    STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}  # noqa: RUF012 - never changed

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(self.format(record), style=self.STYLES.get(record.levelname, ""), markup=False)
