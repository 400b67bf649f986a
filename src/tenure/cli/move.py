"""`tenure export`, `import` and `copy`: move a queue to another store."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import REFUSED, CommandFailed
from tenure.cli.progress import Progress
from tenure.cli.words import duration_option

if TYPE_CHECKING:
    from tenure.cli.output import Output
    from tenure.queue import Queue
    from tenure.transfer import Report

app = typer.Typer()

PATIENCE = timedelta(seconds=60)
Wait = Annotated[
    timedelta | None, duration_option("How long to wait for running tasks (60s); then they are left behind and named.")
]


@command(app, "export")
async def export_(
    session: Session,
    file: Annotated[Path, typer.Argument(help="File to write, or - for stdout.", show_default=False)],
    pause: Annotated[
        bool, typer.Option("--pause", help="Pause all queues first and wait for what runs: to move, not just to save.")
    ] = False,
    wait: Wait = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an export that was interrupted.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> int:
    """Write all tasks and idempotency records into a file.

    One JSON object per line. Running tasks are not written but named, and the exit code is
    then 1. Import elsewhere only what no worker will go on with here: use --pause to move.
    """
    from tenure import transfer

    to_stdout = str(file) == "-"
    if file.exists() and not (resume or force or to_stdout):
        msg = f"{file} exists. Add --resume to go on with it, or --force to replace it."
        raise CommandFailed(msg)
    async with await session.connect() as queue:
        if pause:
            await _hold(session.out, queue, wait, f"being exported to {file}")
        if to_stdout:
            report = await transfer.export(queue, sys.stdout.buffer)
            _name_left_behind(session.out, report)
            return 0 if report.complete else REFUSED
        cursor = None
        if resume and file.exists():
            cursor = _cut(file)
        with (
            file.open("ab" if cursor else "wb") as handle,
            Progress(session.out, "exporting", await transfer.total(queue)) as progress,
        ):
            report = await transfer.export(queue, handle, cursor, progress.advance)
    if pause:
        session.out.note("The queues stay paused, so that nothing changes. To go on here: tenure resume QUEUE")
    return _finish(session.out, report, f"{report.tasks:,} tasks and {report.reservations:,} keys written to {file}")


def _cut(file: Path) -> str | None:
    """Take away what was written after the last whole piece; return where to go on."""
    from tenure import transfer

    with file.open("rb") as handle:
        length, cursor = transfer.place_to_go_on(handle)
    with file.open("r+b") as handle:
        handle.truncate(length)
    return cursor


@command(app, "import")
async def import_(
    session: Session,
    file: Annotated[
        Path, typer.Argument(help="File that `tenure export` wrote.", show_default=False, exists=True, dir_okay=False)
    ],
) -> int:
    """Put everything of an export into this store.

    What is there already is left alone, so an interrupted import is simply made again.
    """
    from tenure import transfer

    with file.open("rb") as handle:
        expected = transfer.check(handle)
        handle.seek(0)
        async with await session.connect() as queue:
            with Progress(session.out, "importing", expected) as progress:
                report = await transfer.take_in(queue, handle, progress.advance)
    return _finish(session.out, report, _moved(report))


@command(app)
async def copy(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="Address or profile of the store to copy.", show_default=False)
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Address or profile of the store to copy to.", show_default=False)
    ],
    pause: Annotated[
        bool,
        typer.Option(
            "--pause/--no-pause", help="Pause all queues of FROM, and leave them so: TO goes on with the work."
        ),
    ] = True,
    wait: Wait = None,
) -> int:
    """Copy everything from one store to another: this is how a queue moves.

    FROM is paused first and stays so, because its tasks live in TO from then on. Running
    tasks are waited for; those that do not end in time are left behind and named, and the
    exit code is 1: make the copy again later. Nothing is doubled by that.

    If TO names the stores of FROM, in their order, and more, then the queue grows by these
    shards: only what they will keep is moved. Stop the producers first.
    """
    from tenure import transfer
    from tenure.growth import is_growth
    from tenure.queue import connect

    if is_growth(_address(source), _address(target)):
        return await _grow(session.out, _address(source), _address(target), wait)
    async with connect(_address(source)) as here, connect(_address(target)) as there:
        transfer.refuse_same(here, there)
        if pause:
            await _hold(session.out, here, wait, "being moved to another store")
        with Progress(session.out, "copying", await transfer.total(here)) as progress:
            report = await transfer.copy(here, there, progress.advance)
    code = _finish(session.out, report, _moved(report))
    if pause and not session.out.as_json:
        session.out.note("The queues of FROM stay paused. Let producers and workers use TO from now on.")
    return code


async def _grow(out: Output, source: str, target: str, wait: timedelta | None) -> int:
    from tenure import transfer
    from tenure.growth import before_growth, grow
    from tenure.queue import Queue
    from tenure.stores import open_store, separated
    from tenure.stores.sharded import ShardedStore

    store = open_store(target)
    assert isinstance(store, ShardedStore)
    before = len(separated(source))
    async with Queue(store, target) as queue:
        await store.grow(before)
        here = before_growth(store, before)
        await _hold(out, here, wait, "its shards become more")
        with Progress(out, "moving", await transfer.total(here)) as progress:
            report = await grow(queue, before, progress.advance)
    code = _finish(out, report, f"{report.tasks:,} tasks and {report.reservations:,} keys moved")
    if not out.as_json:
        out.note(
            "Let producers and workers use all shards from now on, then: tenure resume QUEUE"
            if not (report.running or report.conflicts)
            else "The queue keeps its old number of shards. Make the copy again."
        )
    return code


def _address(word: str) -> str:
    if "://" in word:
        return word
    from tenure.settings import find_settings

    found = find_settings(profile=word, environment={})
    return str(found["url"].value)


async def _hold(out: Output, queue: Queue, wait: timedelta | None, reason: str) -> None:
    from tenure import transfer
    from tenure.task import TaskStatus

    await transfer.pause_all(queue, reason)
    patience = PATIENCE if wait is None else wait
    running = (await queue.counts())[TaskStatus.Running]
    if running and patience:
        out.note(f"Waiting for {running} running tasks to end, for at most {patience.total_seconds():g} s.")
    await transfer.wait_for_running(queue, patience)


def _moved(report: Report) -> str:
    words = [f"{report.tasks:,} tasks and {report.reservations:,} keys put in", f"{report.there:,} tasks were there"]
    if report.updated:
        words.append(f"{report.updated:,} brought up to date")
    return ", ".join(words)


def _finish(out: Output, report: Report, words: str) -> int:
    import msgspec

    if out.as_json:
        out.emit({**msgspec.to_builtins(report), "complete": report.complete})
    else:
        out.say(words)
        _name_left_behind(out, report)
    return 0 if report.complete else REFUSED


def _name_left_behind(out: Output, report: Report) -> None:
    for task_id in report.running:
        out.note(f"left behind, because it is running: {task_id}")
    for name in report.damaged:
        out.note(f"left behind, because its record is damaged: {name}")
    for conflict in report.conflicts:
        out.note(f"left as it is: {conflict}")
