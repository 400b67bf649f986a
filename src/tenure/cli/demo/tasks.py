"""The application of the demo: a shop's background tasks, with the troubles of a real one.

Each execution is written down in a file of its process before and after the work, so that
what the store says at the end can be compared with what really ran.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any, TextIO

from pydantic import BaseModel

from tenure import Context, PermanentError, RetryPolicy, Tenure
from tenure.cli.demo.plan import FOLDER

app = Tenure(retry=RetryPolicy(base=0.1, max_delay=0.5), sweep_interval=0.5)


class _Logbook:
    """What this process ran. A line is written at once, so that a kill loses none of it."""

    def __init__(self) -> None:
        self._file: TextIO | None = None

    def write(self, what: str, context: Context) -> None:
        if self._file is None:
            path = os.path.join(os.environ[FOLDER], f"runs-{os.getpid()}.txt")  # noqa: PTH118
            self._file = open(path, "a", buffering=1)  # noqa: PTH123, SIM115 - open as long as the process lives
        self._file.write(f"{what} {context.task.id} {context.fence}\n")


logbook = _Logbook()


@app.task
async def send_email(input: dict[str, Any], context: Context) -> str:  # noqa: A002 - the contract's name
    """Always works."""
    logbook.write("started", context)
    await asyncio.sleep(_moment())
    logbook.write("finished", context)
    return f"sent to {input['to']}"


@app.task
def resize_image(input: dict[str, Any], context: Context) -> dict[str, int]:  # noqa: A002
    """A plain function: it runs on a thread."""
    logbook.write("started", context)
    time.sleep(_moment())
    logbook.write("finished", context)
    return {"width": input["width"] // 2}


class Charge(BaseModel):
    """A typed input: what does not fit is refused before it runs."""

    order: int
    cents: int
    fails: int = 0


@app.task
async def charge_card(charge: Charge, context: Context) -> int:
    """The bank does not always answer the first time."""
    logbook.write("started", context)
    await asyncio.sleep(_moment())
    if context.attempt <= charge.fails:
        msg = "the bank did not answer"
        raise ConnectionError(msg)
    logbook.write("finished", context)
    return charge.cents


@app.task
async def parse_report(input: dict[str, Any], context: Context) -> int:  # noqa: A002
    """Some reports cannot be read, now or later."""
    logbook.write("started", context)
    await asyncio.sleep(_moment())
    if input["trouble"] == "broken file":
        msg = "page 3 is not a table"
        raise PermanentError(msg)
    if input["trouble"] == "server down":
        msg = "the archive answers 503"
        raise ConnectionError(msg)
    logbook.write("finished", context)
    return 42


@app.task
async def sync_account(input: dict[str, Any], context: Context) -> int:  # noqa: A002
    """One at a time for each account, in the order of submit."""
    logbook.write("started", context)
    await asyncio.sleep(_moment())
    logbook.write("finished", context)
    return int(input["step"])


@app.task
async def flash_offer(input: dict[str, Any], context: Context) -> None:  # noqa: A002, ARG001
    """Too late before it is due: never runs."""
    logbook.write("started", context)


@app.task
async def newsletter(input: dict[str, Any], context: Context) -> None:  # noqa: A002, ARG001
    """Cancelled before it is due: never runs."""
    logbook.write("started", context)


def _moment() -> float:
    return random.uniform(0.02, 0.07)  # noqa: S311 - pretended work
