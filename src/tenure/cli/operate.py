"""`tenure cancel`, `retry`, `archive` and `expire`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.selection import Action, FailedTasks, Tasks, apply

app = typer.Typer()

KeepAttempts = Annotated[bool, typer.Option("--keep-attempts/--reset-attempts", help="Whether attempts so far count.")]


@command(app)
async def cancel(
    session: Session,
    selection: Tasks,
    reason: Annotated[str | None, typer.Option(help="Why, for the history.", show_default=False)] = None,
    by: Annotated[str | None, typer.Option(help="Who, for the history.", show_default="you")] = None,
) -> int:
    """Cancel pending tasks at once, and ask running ones to stop."""
    who = by or user()
    async with await session.connect() as client:
        action = Action("cancel", "Cancelled", lambda task_id: client.cancel(task_id, reason, who))
        return await apply(session.out, client, selection, action, default_statuses=("pending", "running"))


@command(app)
async def retry(session: Session, selection: FailedTasks, keep_attempts: KeepAttempts = False) -> int:
    """Give failed or cancelled tasks another life.

    Filters mean failed tasks unless --status says otherwise.
    """
    async with await session.connect() as client:
        action = Action(
            "retry", "Retried", lambda task_id: client.retry(task_id, keep_attempts=keep_attempts, by=user())
        )
        return await apply(session.out, client, selection, action, default_statuses=("failed",))


@command(app)
async def archive(session: Session, selection: Tasks) -> int:
    """Put ended tasks away; they stay readable."""
    async with await session.connect() as client:
        action = Action("archive", "Archived", client.archive)
        ended = ("completed", "failed", "cancelled", "expired")
        return await apply(session.out, client, selection, action, default_statuses=ended)


@command(app)
async def expire(session: Session, selection: Tasks) -> int:
    """Mark pending tasks as expired: too late, but no failure."""
    async with await session.connect() as client:
        action = Action("expire", "Expired", client.mark_expired)
        return await apply(session.out, client, selection, action, default_statuses=("pending",))


def user() -> str:
    """Who is at the keyboard; a container may have no name for its user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
