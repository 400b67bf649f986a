"""`tenure status`, `list` and `history`: what is known about tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.cli.words import duration_option, event_dict, event_line, first_line, task_fields

if TYPE_CHECKING:
    from datetime import datetime

    from tenure.cli.output import Output
    from tenure.queue import Queue
    from tenure.task import Task

app = typer.Typer()

TaskId = Annotated[str, typer.Argument(metavar="ID", help="Id of the task.", show_default=False)]


@command(app)
async def status(
    session: Session,
    task_id: TaskId,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show every change until the task has ended.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the traceback of the last error.")] = False,
) -> None:
    """Everything about a task, and why it is not running."""
    async with await session.connect() as queue:
        if not watch:
            await show_task(session.out, queue, task_id, traceback=traceback)
            return
        seen = 0
        while True:
            mark = queue.store.mark()
            task = await existing(queue, task_id)
            if task.version > seen:
                if seen:
                    session.out.say()
                await show_task(session.out, queue, task_id, traceback=traceback)
                seen = task.version
            if task.status.ended:
                return
            await queue.store.wait(mark, 1.0)


async def existing(queue: Queue, task_id: str) -> Task:
    """The task, or the error that there is none."""
    from tenure.errors import TaskNotFound

    task = await queue.get(task_id)
    if task is None:
        raise TaskNotFound(task_id)
    return task


async def show_task(out: Output, queue: Queue, task_id: str, *, traceback: bool = False) -> None:
    """Print one task with the reason why it is not running."""
    why = await queue.explain(task_id)
    task = await existing(queue, task_id)
    if out.as_json:
        out.emit({**task.to_dict(), "why": why})
        return
    out.fields(task_fields(task, await queue.now(), why))
    if traceback and task.traceback:
        out.say()
        out.say(task.traceback.rstrip())


@command(app)
async def history(session: Session, task_id: TaskId) -> None:
    """Every version of a task, oldest first."""
    async with await session.connect() as queue:
        show_history(session.out, await existing(queue, task_id))


def show_history(out: Output, task: Task) -> None:
    """One line per version; a long history has a gap in the middle."""
    before = 0
    for event in task.history:
        if out.as_json:
            out.emit(event_dict(task, event))
        else:
            if event.number > before + 1:
                out.say(f"… {event.number - before - 1} versions left out …", style="dim")
            out.status_line(event_line(event), event.status)
        before = event.number


@command(app, "list")
async def list_(
    session: Session,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, running, completed, failed, …; also ready, scheduled, retrying, dlq, done.",
            show_default=False,
        ),
    ] = None,
    type: Annotated[str | None, typer.Option("--type", "-t", help="Only this type.", show_default=False)] = None,  # noqa: A002 - the contract's names
    queue: Annotated[str | None, typer.Option(help="Only this queue.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.", show_default=False)] = None,
    worker: Annotated[str | None, typer.Option(help="Only what this worker runs.", show_default=False)] = None,
    older_than: Annotated[timedelta | None, duration_option("Only those submitted longer ago than this.")] = None,
    error_contains: Annotated[
        str | None, typer.Option(help="Only those whose last error contains this text.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="How many at most; filters apply first.", min=0)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on where the last page ended.", show_default=False)] = None,
) -> None:
    """Tasks, latest first.

    With --json each task is a line; if there are more, the last line is {"cursor": …}.
    """
    async with await session.connect() as client:
        page = await client.list(
            status,
            type=type,
            queue=queue,
            tag=tag,
            worker=worker,
            older_than=older_than,
            error_contains=error_contains,
            limit=limit,
            cursor=cursor,
        )
        show_tasks(session.out, page.tasks, await client.now())
    if page.cursor is not None:
        if session.out.as_json:
            session.out.emit({"cursor": page.cursor})
        else:
            session.out.note(f"There are more: add --cursor '{page.cursor}'")


def show_tasks(out: Output, tasks: list[Task], now: datetime) -> None:
    """A table of tasks."""
    if out.as_json:
        for task in tasks:
            out.emit(task.to_dict())
        return
    if not tasks:
        out.note("No task passes these filters.")
        return
    columns = ["id", "type", "queue", "status", "age", "attempts", "remark"]
    rows = [
        [task.id, task.type, task.queue, task.status, _age(task, now), task.attempts, _remark(task, now)]
        for task in tasks
    ]
    if out.at_terminal and all(task.queue == "default" for task in tasks):
        columns, rows = _without(2, columns), [_without(2, row) for row in rows]
    out.table(columns, rows, right=["age", "attempts"])


def _without(place: int, row: list[Any]) -> list[Any]:
    return row[:place] + row[place + 1 :]


def _age(task: Task, now: datetime) -> str:
    from tenure.explain import human

    return human(timedelta(seconds=int((now - task.created_at).total_seconds())))


def _remark(task: Task, now: datetime) -> str:
    """The one thing to know beside the status."""
    from tenure.cli.words import relative
    from tenure.task import TaskStatus

    if task.status is TaskStatus.Pending and task.available_at > now:
        word = "next attempt" if task.attempts else "due"
        return f"{word} {relative(task.available_at, now)}"
    if task.status is TaskStatus.Pending and task.expires_at is not None:
        return f"expires {relative(task.expires_at, now)}"
    if task.status is TaskStatus.Running:
        return f"on {task.worker_id}"
    if task.status is TaskStatus.Failed:
        return first_line(task.last_error, 60)
    if task.status is TaskStatus.Cancelled:
        return first_line(task.cancel_reason, 60)
    return ""
