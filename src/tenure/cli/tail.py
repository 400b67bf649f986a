"""`tenure tail`: events as they happen."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.command import Session, command
from tenure.cli.words import duration_option, event_dict, first_line

if TYPE_CHECKING:
    from tenure.cli.output import Output
    from tenure.task import Event, Task

app = typer.Typer()


@command(app)
async def tail(
    session: Session,
    task_id: Annotated[str | None, typer.Option("--id", help="Only this task.", show_default=False)] = None,
    type: Annotated[str | None, typer.Option("--type", "-t", help="Only this type.", show_default=False)] = None,  # noqa: A002 - the contract's names
    queue: Annotated[str | None, typer.Option(help="Only this queue.", show_default=False)] = None,
    what: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EVENT",
            help="Only this event (created, claimed, failed, …); may be given several times.",
            show_default=False,
        ),
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Only of this worker.", show_default=False)] = None,
    since: Annotated[timedelta | None, duration_option("Begin this long ago.")] = None,
    count: Annotated[int | None, typer.Option(help="Stop after so many events.", min=1, show_default=False)] = None,
) -> None:
    """Show events as they happen, until Ctrl-C."""
    from tenure.tail import follow

    told = 0
    async with await session.connect() as client:
        start = None if since is None else await client.now() - since
        async for task, event in follow(client, since=start):
            wanted = (
                task_id in (None, task.id)
                and type in (None, task.type)
                and queue in (None, task.queue)
                and (not what or event.what in what)
                and worker in (None, event.worker)
            )
            if wanted:
                _show(session.out, task, event)
                told += 1
                if count is not None and told >= count:
                    return


def _show(out: Output, task: Task, event: Event) -> None:
    if out.as_json:
        out.emit(event_dict(task, event))
        return
    clock = event.at.strftime("%H:%M:%S.%f")[:-3]
    by = f" by {event.worker}" if event.worker else ""
    why = f": {first_line(event.why, 100)}" if event.why else ""
    out.status_line(f"{clock}  {task.id}  {task.type}  {event.what}{by} -> {event.status}{why}", event.status)
