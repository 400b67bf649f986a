"""Which tasks a command means: ids, or filters with a count and a question."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tenure.cli.command import Options
from tenure.cli.errors import REFUSED, WrongUsage
from tenure.cli.progress import Progress
from tenure.cli.words import duration_option

if TYPE_CHECKING:
    from tenure.cli.output import Output
    from tenure.queue import Queue

TOGETHER = 200
"""How many changes are under way at once, so that they share commits."""


class Action(NamedTuple):
    """What is done to each task, in the words for before and after."""

    verb: str
    done: str
    change: Callable[[str], Awaitable[Any]]


class Selection(NamedTuple):
    """Which tasks, and whether to ask first; a filter that is None does not count."""

    ids: Sequence[str]
    by: dict[str, Any]
    yes: bool = False
    dry_run: bool = False

    @classmethod
    def read(
        cls, ids: list[str] | None, *, everything: bool = False, yes: bool = False, dry_run: bool = False, **by: Any
    ) -> Selection:
        """Either ids or filters: both, or neither, is a mistake."""
        given = {name: value for name, value in by.items() if value is not None}
        if ids and (given or everything):
            msg = "Give ids or filters, not both."
            raise WrongUsage(msg)
        if not ids and not given and not everything:
            msg = "Give ids of tasks, or filters such as --type and --older-than."
            raise WrongUsage(msg)
        return cls(list(dict.fromkeys(ids or [])), given, yes, dry_run)


_IDS = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of tasks.", show_default=False)]
_FILTERS: dict[str, tuple[Any, Any]] = {
    "type": (Annotated[str | None, typer.Option("--type", "-t", help="All of this type.", show_default=False)], None),
    "status": (Annotated[str | None, typer.Option(help="All of this status.", show_default=False)], None),
    "queue": (Annotated[str | None, typer.Option(help="All of this queue.", show_default=False)], None),
    "tag": (Annotated[str | None, typer.Option(help="All with this tag.", show_default=False)], None),
    "older_than": (
        Annotated[timedelta | None, duration_option("All that were submitted longer ago than this.")],
        None,
    ),
    "error_contains": (
        Annotated[str | None, typer.Option(help="All whose last error contains this text.", show_default=False)],
        None,
    ),
    "everything": (Annotated[bool, typer.Option("--all", help="All dead letters.")], False),
}
_CARE: dict[str, tuple[Any, Any]] = {
    "yes": (Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")], False),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")], False),
}


def _selected_by(*without: str) -> Options:
    filters = {name: option for name, option in _FILTERS.items() if name not in without}
    return Options({"ids": (_IDS, None), **filters, **_CARE}, Selection.read)


Tasks = Annotated[Selection, _selected_by("error_contains", "everything")]
FailedTasks = Annotated[Selection, _selected_by("everything")]
DeadLetters = Annotated[Selection, _selected_by("status")]


async def apply(
    out: Output, queue: Queue, selection: Selection, action: Action, *, default_statuses: Iterable[str]
) -> int:
    """Find, ask, do, and say what came of it. What was refused makes the exit code 1."""
    ids = selection.ids or await _find(queue, selection.by, default_statuses)
    by_filter = not selection.ids
    if selection.dry_run:
        _report_dry_run(out, ids, action)
        return 0
    if by_filter and ids and not selection.yes:
        if out.as_json or not sys.stdin.isatty():
            msg = f"This would {action.verb} {_tasks(len(ids))}. Add --yes to do it, or --dry-run to see which."
            raise WrongUsage(msg)
        typer.confirm(f"{action.verb.capitalize()} {_tasks(len(ids))}?", abort=True)
    refused = await _do(out, ids, action)
    done = len(ids) - len(refused)
    if not out.as_json:
        for error in refused.values():
            out.note(str(error))
        out.say(f"{action.done} {_tasks(done)}" + (f", {len(refused)} refused" if refused else ""))
    return REFUSED if refused else 0


async def _find(queue: Queue, by: dict[str, Any], default_statuses: Iterable[str]) -> list[str]:
    given, others = by.get("status"), {name: value for name, value in by.items() if name != "status"}
    ids: dict[str, None] = {}
    for status in [given] if given else default_statuses:
        async for task in queue.scan(status, **others):
            ids[task.id] = None
    return list(ids)


def _report_dry_run(out: Output, ids: Sequence[str], action: Action) -> None:
    for task_id in ids:
        if out.as_json:
            out.emit({"id": task_id, "action": action.verb, "dry_run": True})
        else:
            out.say(task_id)
    out.note(f"Would {action.verb} {_tasks(len(ids))}; nothing was changed.")


async def _do(out: Output, ids: Sequence[str], action: Action) -> dict[str, Exception]:
    import asyncio

    from tenure.errors import StoreError, TenureError

    refused: dict[str, Exception] = {}
    with Progress(out, action.verb, len(ids)) as progress:
        for start in range(0, len(ids), TOGETHER):
            batch = ids[start : start + TOGETHER]
            answers = await asyncio.gather(*(action.change(task_id) for task_id in batch), return_exceptions=True)
            for task_id, answer in zip(batch, answers, strict=True):
                if isinstance(answer, TenureError) and not isinstance(answer, StoreError):
                    refused[task_id] = answer
                elif isinstance(answer, BaseException):
                    raise answer
                if out.as_json:
                    error = str(refused[task_id]) if task_id in refused else None
                    status = None if error else getattr(answer, "status", None)
                    out.emit(
                        {"id": task_id, "action": action.verb, "done": error is None, "status": status, "error": error}
                    )
            progress.advance(len(batch))
    return refused


def _tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"
