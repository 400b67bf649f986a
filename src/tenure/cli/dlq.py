"""`tenure dlq`: dead letters, the tasks that ended as failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import CommandFailed
from tenure.cli.look import TaskId, existing, show_history, show_task
from tenure.cli.operate import KeepAttempts, user
from tenure.cli.selection import Action, DeadLetters, apply
from tenure.cli.words import at, duration_option, first_line

app = typer.Typer()
dlq = typer.Typer(help="Dead letters: tasks that ended as failed.", no_args_is_help=True)
app.add_typer(dlq, name="dlq")


@command(dlq, "list")
async def list_(
    session: Session,
    type: Annotated[str | None, typer.Option("--type", "-t", help="Only this type.", show_default=False)] = None,  # noqa: A002 - the contract's names
    queue: Annotated[str | None, typer.Option(help="Only this queue.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.", show_default=False)] = None,
    older_than: Annotated[timedelta | None, duration_option("Only those submitted longer ago than this.")] = None,
    error_contains: Annotated[
        str | None, typer.Option(help="Only those whose error contains this text.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="How many at most; filters apply first.", min=0)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on where the last page ended.", show_default=False)] = None,
) -> None:
    """Dead letters, latest first."""
    out = session.out
    async with await session.connect() as client:
        page = await client.list(
            "failed", type=type, queue=queue, tag=tag, older_than=older_than,
            error_contains=error_contains, limit=limit, cursor=cursor,
        )  # fmt: skip
    if out.as_json:
        for task in page.tasks:
            out.emit(task.to_dict())
        if page.cursor is not None:
            out.emit({"cursor": page.cursor})
        return
    rows = [
        (task.id, task.type, task.attempts, task.failed_at and at(task.failed_at), first_line(task.last_error))
        for task in page.tasks
    ]
    out.table(["id", "type", "attempts", "failed_at", "error"], rows, right=["attempts"])
    if page.cursor is not None:
        out.note(f"There are more: add --cursor '{page.cursor}'")


@command(dlq)
async def show(session: Session, task_id: TaskId) -> None:
    """One dead letter with its traceback and its history."""
    async with await session.connect() as client:
        task = await existing(client, task_id)
        if task.status != "failed":
            msg = f"Task {task_id} is {task.status}, no dead letter. See: tenure status {task_id}"
            raise CommandFailed(msg)
        await show_task(session.out, client, task_id, traceback=True)
        if not session.out.as_json:
            session.out.say()
            show_history(session.out, task)


@command(dlq)
async def requeue(session: Session, selection: DeadLetters, keep_attempts: KeepAttempts = False) -> int:
    """Put dead letters back to pending."""
    async with await session.connect() as client:
        action = Action(
            "requeue", "Requeued", lambda task_id: client.retry(task_id, keep_attempts=keep_attempts, by=user())
        )
        return await apply(session.out, client, selection, action, default_statuses=("failed",))


@command(dlq)
async def purge(session: Session, selection: DeadLetters) -> int:
    """Delete dead letters for good."""
    async with await session.connect() as client:
        action = Action("purge", "Purged", lambda task_id: client.purge(task_id, only="failed"))
        return await apply(session.out, client, selection, action, default_statuses=("failed",))
