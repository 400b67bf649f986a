"""`tenure stats`, `workers`, `pause`, `resume` and `doctor`: how the queue is doing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.command import Session, command
from tenure.cli.operate import user
from tenure.cli.words import age, at, duration_option, relative

if TYPE_CHECKING:
    from tenure.cli.output import Output
    from tenure.queue import Queue
    from tenure.survey import QueueStats

app = typer.Typer()

STATUSES = ("pending", "running", "completed", "failed", "cancelled", "expired", "archived")
UNARCHIVED = STATUSES[:-1]
QueueName = Annotated[str, typer.Argument(metavar="[QUEUE]", help="Name of the queue.")]


@command(app)
async def stats(session: Session) -> None:
    """Depths, rates, ages, and failures per type."""
    async with await session.connect() as queue:
        figures, rates = await queue.stats(), await queue.throughput()
    if session.out.as_json:
        session.out.emit(as_dict(figures, rates))
    else:
        show_stats(session.out, figures, rates)


def as_dict(figures: QueueStats, rates: dict[Any, float]) -> dict[str, Any]:
    """The figures as JSON, with the rates of the last minute."""
    import msgspec

    per_second = {status.value: round(rate, 3) for status, rate in rates.items()}
    return {**msgspec.to_builtins(figures), "per_second": per_second}


def show_stats(out: Output, figures: QueueStats, rates: dict[Any, float]) -> None:
    """Two tables and what else there is to say."""
    out.table(["queue", *STATUSES], table_of(figures.queues, STATUSES), right=STATUSES, total=_total(figures))
    out.say()
    out.table(["type", *UNARCHIVED, "failed %"], types_of(figures), right=[*UNARCHIVED, "failed %"])
    out.say()
    out.fields(summary(figures, rates))


def table_of(lanes: dict[str, dict[str, int]], statuses: Sequence[str]) -> list[list[str]]:
    """One row per queue or type."""
    return [[name, *(f"{lane.get(status, 0):,}" for status in statuses)] for name, lane in sorted(lanes.items())]


def types_of(figures: QueueStats) -> list[list[str]]:
    """One row per type, with the share of ended tasks that failed."""
    rows = []
    for row, (_, lane) in zip(table_of(figures.types, UNARCHIVED), sorted(figures.types.items()), strict=True):
        ended = lane.get("completed", 0) + lane.get("failed", 0)
        rows.append([*row, f"{lane.get('failed', 0) / ended:.1%}" if ended else "-"])
    return rows


def _total(figures: QueueStats) -> list[str]:
    return ["total", *(f"{figures.counts[status]:,}" for status in STATUSES)]


def summary(figures: QueueStats, rates: dict[Any, float]) -> list[tuple[str, str]]:
    """What the tables do not say."""
    speeds = ", ".join(f"{rate:,.3g}/s {status.value}" for status, rate in rates.items() if rate)
    lines = [
        ("last minute", speeds or "nothing ended"),
        ("oldest pending", age(figures.oldest_pending_seconds)),
        ("oldest running", age(figures.oldest_running_seconds)),
        ("workers", str(figures.workers)),
    ]
    lines += [("paused", f"{name}{f' ({reason})' if reason else ''}") for name, reason in figures.paused.items()]
    if figures.unhandled_types:
        lines.append(("waiting without a worker", ", ".join(figures.unhandled_types)))
    if figures.damaged:
        lines.append(("damaged records", str(figures.damaged)))
    return lines


@command(app)
async def workers(
    session: Session,
    gone: Annotated[bool, typer.Option("--gone", help="Also those that fell silent.")] = False,
) -> None:
    """Who is alive, what they run, and since when."""
    out = session.out
    async with await session.connect() as queue:
        now = await queue.now()
        found = await queue.workers(gone=gone)
        running = {worker.id: await _running(queue, worker.id) for worker in found}
    if out.as_json:
        import msgspec

        for worker in found:
            out.emit({**msgspec.to_builtins(worker), "tasks": running[worker.id]})
        return
    if not found:
        out.say("No worker has given a sign of life in the last minute.")
        return
    rows = [
        (
            worker.id, worker.pid, ", ".join(worker.queues), f"{len(running[worker.id])} of {worker.concurrency}",
            relative(worker.started_at, now), relative(worker.seen_at, now) if worker.alive else "silent", ", ".join(worker.types),
        )
        for worker in found
    ]  # fmt: skip
    out.table(["worker", "pid", "queues", "running", "started", "seen", "types"], rows, right=["pid"])
    for worker in found:
        for task in running[worker.id]:
            out.say(f"  {worker.id} runs {task['id']} ({task['type']}) since {task['started_at']}")


async def _running(queue: Queue, worker_id: str) -> list[dict[str, Any]]:
    page = await queue.list("running", worker=worker_id, limit=100)
    return [
        {
            "id": task.id,
            "type": task.type,
            "attempt": task.attempt,
            "started_at": task.started_at and at(task.started_at),
        }
        for task in page.tasks
    ]


@command(app)
async def pause(
    session: Session,
    queue: QueueName = "default",
    reason: Annotated[str, typer.Option(help="Why, for those who ask.", show_default=False)] = "",
    resume_after: Annotated[timedelta | None, duration_option("Resume by itself after this time.", "--for")] = None,
) -> None:
    """Let no worker claim from a queue; what runs, runs on."""
    async with await session.connect() as client:
        await client.pause(queue, reason, by=user(), resume_after=resume_after)
        until = None if resume_after is None else await client.now() + resume_after
    if session.out.as_json:
        session.out.emit({"queue": queue, "paused": True, "reason": reason, "until": until and at(until)})
    else:
        session.out.say(f"Queue {queue!r} is paused{f' until {at(until)}' if until else ''}.")


@command(app)
async def resume(session: Session, queue: QueueName = "default") -> None:
    """Let workers claim from a queue again."""
    async with await session.connect() as client:
        was_paused = queue in await client.paused()
        await client.resume(queue)
    if session.out.as_json:
        session.out.emit({"queue": queue, "paused": False, "was_paused": was_paused})
    else:
        session.out.say(f"Queue {queue!r} {'goes on' if was_paused else 'was not paused'}.")
