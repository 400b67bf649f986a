"""`tenure top`: the queue at a glance, live."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.cli.health import UNARCHIVED, as_dict, show_stats, summary, table_of, types_of
from tenure.cli.words import duration_option, first_line, relative

if TYPE_CHECKING:
    import asyncio

    from rich.console import Group
    from rich.table import Table

    from tenure.queue import Queue

app = typer.Typer()


@command(app)
async def top(
    session: Session,
    interval: Annotated[timedelta | None, duration_option("How often to look (1s).")] = None,
    count: Annotated[int | None, typer.Option(help="Stop after so many looks.", min=1, show_default=False)] = None,
) -> None:
    """The queue at a glance, live; q or Ctrl-C to leave.

    In a pipe it prints the figures again and again, and with --json one object per look.
    """
    import asyncio

    seconds = max(interval.total_seconds(), 0.1) if interval else 1.0
    leave = asyncio.Event()
    async with await session.connect() as queue:
        if session.out.at_terminal:
            await _show_live(session, queue, seconds, count, leave)
            return
        looks = 0
        while True:
            figures, rates = await queue.stats(), await queue.throughput()
            if session.out.as_json:
                session.out.emit(as_dict(figures, rates))
            else:
                show_stats(session.out, figures, rates)
                session.out.say()
            looks += 1
            if looks == count:
                return
            await asyncio.sleep(seconds)


async def _show_live(session: Session, queue: Queue, seconds: float, count: int | None, leave: asyncio.Event) -> None:
    import asyncio

    from rich.live import Live

    from tenure.cli.liveline import Pace
    from tenure.task import ENDED

    pace = Pace()
    looks = 0
    with _keys(leave), Live(console=session.out.console, screen=True, auto_refresh=False) as live:
        while not leave.is_set():
            counts = await queue.counts()
            pace.add(sum(counts[status] for status in ENDED))
            live.update(await _picture(queue, session, pace.per_second), refresh=True)
            looks += 1
            if looks == count:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await leave.wait()


@contextlib.contextmanager
def _keys(leave: asyncio.Event) -> Iterator[None]:
    """Hear a single key without Enter; the terminal is put back as it was."""
    import asyncio
    import termios
    import tty

    if not sys.stdin.isatty():
        yield
        return
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        if sys.stdin.read(1) in ("q", "Q"):
            leave.set()

    tty.setcbreak(file)
    loop.add_reader(file, pressed)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


async def _picture(queue: Queue, session: Session, pace: float) -> Group:
    from rich.console import Group
    from rich.text import Text

    from tenure.stores.options import without_password

    figures, rates = await queue.stats(), await queue.throughput()
    now = figures.now
    head = Text.assemble(
        ("tenure top", "bold"), f"  {without_password(session.url)}  {now:%H:%M:%S} UTC  ", (f"{pace:,.0f}/s", "bold green"),
        ("   q to leave", "dim"),
    )  # fmt: skip
    failed = (await queue.list("failed", limit=5)).tasks
    workers = [
        (worker, len((await queue.list("running", worker=worker.id, limit=1000)).tasks))
        for worker in await queue.workers()
    ]
    about = Text()
    for name, value in summary(figures, rates):
        about.append(f"{name} ", style="dim").append(f"{value}   ")
    return Group(
        head,
        about,
        _table(["queues", *UNARCHIVED], table_of(figures.queues, UNARCHIVED)),
        _table(["types", *UNARCHIVED, "failed %"], types_of(figures)),
        _table(
            ["workers", "running", "of", "started"],
            [[worker.id, running, worker.concurrency, relative(worker.started_at, now)] for worker, running in workers],
        ),
        _table(
            ["dead letters", "type", "when", "error"],
            [
                [task.id, task.type, relative(task.failed_at or now, now), first_line(task.last_error, 60)]
                for task in failed
            ],
            right=False,
        ),
    )


def _table(columns: list[str], rows: list[list[Any]], *, right: bool = True) -> Table:
    """A table that fits a terminal of 80 columns; the first column gives way if it must."""
    from rich.table import Table

    from tenure.cli.output import STYLES

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(
            column,
            justify="right" if number and right else "left",
            header_style=STYLES.get(column, "bold"),
            overflow="ellipsis",
            no_wrap=number > 0,
            min_width=len(column) if number else None,
        )
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    table.add_row()
    return table
