"""`tenure cancel`, `retry`, `archive` and `expire`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.selection import (
    Action,
    DryRun,
    ErrorContains,
    Filters,
    Ids,
    Lane,
    OlderThan,
    Status,
    Tag,
    Type,
    Yes,
    apply,
)

app = typer.Typer()


@command(app)
async def cancel(
    session: Session,
    ids: Ids = None,
    type: Type = None,  # noqa: A002 - the contract's names
    status: Status = None,
    queue: Lane = None,
    tag: Tag = None,
    older_than: OlderThan = None,
    reason: Annotated[str | None, typer.Option(help="Why, for the history.", show_default=False)] = None,
    by: Annotated[str | None, typer.Option(help="Who, for the history.", show_default="you")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Cancel pending tasks at once, and ask running ones to stop."""
    filters = Filters.read(ids, type=type, status=status, queue=queue, tag=tag, older_than=older_than)
    who = by or user()
    async with await session.connect() as client:
        action = Action("cancel", "Cancelled", lambda task_id: client.cancel(task_id, reason, who))
        return await apply(
            session.out, client, filters, action, default_statuses=("pending", "running"), yes=yes, dry_run=dry_run
        )


@command(app)
async def retry(
    session: Session,
    ids: Ids = None,
    type: Type = None,  # noqa: A002
    status: Status = None,
    queue: Lane = None,
    tag: Tag = None,
    older_than: OlderThan = None,
    error_contains: ErrorContains = None,
    keep_attempts: Annotated[
        bool, typer.Option("--keep-attempts/--reset-attempts", help="Whether attempts so far count.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Give failed or cancelled tasks another life.

    Filters mean failed tasks unless --status says otherwise.
    """
    filters = Filters.read(
        ids, type=type, status=status, queue=queue, tag=tag, older_than=older_than, error_contains=error_contains
    )
    async with await session.connect() as client:
        action = Action(
            "retry", "Retried", lambda task_id: client.retry(task_id, keep_attempts=keep_attempts, by=user())
        )
        return await apply(session.out, client, filters, action, default_statuses=("failed",), yes=yes, dry_run=dry_run)


@command(app)
async def archive(
    session: Session,
    ids: Ids = None,
    type: Type = None,  # noqa: A002
    status: Status = None,
    queue: Lane = None,
    tag: Tag = None,
    older_than: OlderThan = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Put ended tasks away; they stay readable."""
    filters = Filters.read(ids, type=type, status=status, queue=queue, tag=tag, older_than=older_than)
    async with await session.connect() as client:
        action = Action("archive", "Archived", client.archive)
        ended = ("completed", "failed", "cancelled", "expired")
        return await apply(session.out, client, filters, action, default_statuses=ended, yes=yes, dry_run=dry_run)


@command(app)
async def expire(
    session: Session,
    ids: Ids = None,
    type: Type = None,  # noqa: A002
    status: Status = None,
    queue: Lane = None,
    tag: Tag = None,
    older_than: OlderThan = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Mark pending tasks as expired: too late, but no failure."""
    filters = Filters.read(ids, type=type, status=status, queue=queue, tag=tag, older_than=older_than)
    async with await session.connect() as client:
        action = Action("expire", "Expired", client.mark_expired)
        return await apply(
            session.out, client, filters, action, default_statuses=("pending",), yes=yes, dry_run=dry_run
        )


def user() -> str:
    """Who is at the keyboard; a container may have no name for its user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
