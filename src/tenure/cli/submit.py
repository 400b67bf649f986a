"""`tenure submit`: one task, or a file of them."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tenure.cli.command import Session, command
from tenure.cli.errors import REFUSED, WrongUsage
from tenure.cli.progress import Progress
from tenure.cli.words import at_and_relative, duration, duration_option, moment, moment_option

if TYPE_CHECKING:
    from tenure.queue import Queue
    from tenure.submission import SubmitOptions
    from tenure.task import Task

app = typer.Typer()

BATCH = 500
NEVER = ("never", "forever", "none")
_DURATIONS = ("ttl", "delay", "idempotency_ttl", "timeout")
_MOMENTS = ("expires_at", "schedule_at", "run_at", "scheduled_for")
_SHORT = {"key": "idempotency_key", "key_scope": "idempotency_scope", "key_ttl": "idempotency_ttl", "id": "task_id", "at": "schedule_at", "tag": "tags"}  # fmt: skip


def _key_ttl(text: str) -> Any:
    return NEVER if text.lower() in NEVER else duration(text)


@command(app)
async def submit(
    session: Session,
    type: Annotated[str | None, typer.Option("--type", "-t", help="Type of the task.", show_default=False)] = None,  # noqa: A002 - the contract's names
    input: Annotated[  # noqa: A002
        str, typer.Option("--input", "-i", metavar="JSON", help="Input: JSON, @FILE, or - for stdin.")
    ] = "null",
    ttl: Annotated[timedelta | None, duration_option("Expires after this time: 30s, 5m, 1h, 7d, 2w.")] = None,
    expires_at: Annotated[datetime | None, moment_option("Expires at this time: 2026-01-28T17:00:00Z.")] = None,
    at: Annotated[datetime | None, moment_option("Due at this time.")] = None,
    delay: Annotated[timedelta | None, duration_option("Due after this time.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key; with --many the beginning of each line's.")] = None,
    key_scope: Annotated[
        str | None, typer.Option(help="Scope of the key: task_type, queue, or a name of your own.")
    ] = None,
    key_ttl: Annotated[
        Any,
        typer.Option(
            parser=_key_ttl, metavar="DURATION", help="How long the key is kept (30d), or never.", show_default=False
        ),
    ] = None,
    slot: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="NAME DATE", help="Reserve one task per name and date.", show_default=False),
    ] = None,
    id: Annotated[str | None, typer.Option(help="Id of your own choice.", show_default=False)] = None,  # noqa: A002
    queue: Annotated[str | None, typer.Option(help="Queue to submit to.", show_default="default")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher runs first.", show_default="0")] = None,
    ordering_key: Annotated[str | None, typer.Option(help="Tasks of one key run one at a time, in order.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="How many executions at most.", show_default=False)] = None,
    timeout: Annotated[timedelta | None, duration_option("How long one execution may take.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Tag; may be given several times.", show_default=False)
    ] = None,
    many: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Submit each line of a file: an object with type, input and options.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and print the result.")] = False,
    wait_timeout: Annotated[timedelta | None, duration_option("How long to wait at most.")] = None,
) -> int:
    """Submit a task; when this returns, it is durable.

    A repeat with the same key, slot or id finds the task that is there and says so. With
    --many, lines that have a key (their own, or --key and the number of the line) can be
    submitted again after an interruption: what is there already is left alone.
    """
    given = {
        "ttl": ttl, "expires_at": expires_at, "schedule_at": at, "delay": delay, "queue": queue, "priority": priority,
        "ordering_key": ordering_key, "max_attempts": max_attempts, "timeout": timeout, "tags": tag, "task_id": id,
        "idempotency_scope": key_scope, "slot": slot,
    }  # fmt: skip
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if key_ttl is not None:
        options["idempotency_ttl"] = None if key_ttl is NEVER else key_ttl
    if many is not None:
        if type is not None or id is not None or slot is not None or wait or input != "null":
            msg = "--many reads type, input, id and slot from the file, and does not wait. Leave out -t, -i, --id, --slot and --wait."
            raise WrongUsage(msg)
        async with await session.connect() as client:
            return await _submit_file(session, client, many, key, options)
    if type is None:
        msg = "Give the type of the task: tenure submit -t TYPE -i JSON (or --many FILE.jsonl)."
        raise WrongUsage(msg)
    if key is not None:
        options["idempotency_key"] = key
    value = _read_json(input)
    async with await session.connect() as client:
        task = await client.submit(type, value, **options)
        await _show_submitted(session, client, task)
        if wait:
            result = await client.result(task.id, None if wait_timeout is None else wait_timeout.total_seconds())
            if session.out.as_json:
                session.out.emit({"id": task.id, "result": result})
            else:
                session.out.say(json.dumps(result, ensure_ascii=False))
    return 0


async def _show_submitted(session: Session, queue: Queue, task: Task) -> None:
    out = session.out
    if out.as_json:
        out.emit(task.to_dict())
        return
    if not task.created:
        out.note(f"note: it was there already, and is {task.status}.")
    elif task.expires_at is not None:
        out.note(f"expires_at: {at_and_relative(task.expires_at, await queue.now())}")
    out.say(task.id)


def _read_json(text: str) -> Any:
    source = "-i"
    if text == "-":
        text, source = sys.stdin.read(), "stdin"
    elif text.startswith("@"):
        source = text[1:]
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"Cannot read {source}: {error}."
            raise WrongUsage(msg) from None
    try:
        return json.loads(text)
    except ValueError as error:
        msg = f"{source} is not JSON ({error}): {text.strip()[:60]!r}. A string needs quotes: '\"text\"'."
        raise WrongUsage(msg) from None


async def _submit_file(session: Session, queue: Queue, name: str, key: str | None, options: dict[str, Any]) -> int:
    """Batches keep it fast; the batch with a conflict goes again line by line, so that one bad line stops no other."""
    lines = _read_lines(name)
    created = repeated = unkeyed = 0
    refused: list[tuple[int, str]] = []
    with Progress(session.out, "submitting", len(lines)) as progress:
        for start in range(0, len(lines), BATCH):
            batch = [_order(number, line, key, options) for number, line in lines[start : start + BATCH]]
            unkeyed += sum(not {"idempotency_key", "task_id", "slot"} & order[2].keys() for order in batch)
            for (number, _), answer in zip(
                lines[start : start + BATCH], await _submit_batch(queue, batch), strict=True
            ):
                if isinstance(answer, Exception):
                    refused.append((number, str(answer)))
                elif answer.created:
                    created += 1
                else:
                    repeated += 1
            progress.advance(len(batch))
    if session.out.as_json:
        listed = [{"line": number, "error": error} for number, error in refused]
        session.out.emit({"lines": len(lines), "created": created, "existing": repeated, "refused": listed})
    else:
        for number, error in refused:
            session.out.note(f"line {number}: {error}")
        session.out.say(f"{created} created, {repeated} there already, {len(refused)} refused")
        if unkeyed:
            session.out.note(
                f"note: {unkeyed} lines have no key; a second run would submit them again. Use --key PREFIX."
            )
    return REFUSED if refused else 0


async def _submit_batch(queue: Queue, batch: list[tuple[str, Any, SubmitOptions]]) -> list[Task | Exception]:
    import asyncio

    from tenure.errors import IdempotencyConflict, StoreError, TenureError

    try:
        return list(await queue.submit_many(batch))
    except IdempotencyConflict:
        pass
    except StoreError:
        raise
    except TenureError:
        pass
    answers = await asyncio.gather(
        *(queue.submit(type_, value, **options) for type_, value, options in batch), return_exceptions=True
    )
    told: list[Task | Exception] = []
    for answer in answers:
        if isinstance(answer, BaseException) and (
            isinstance(answer, StoreError) or not isinstance(answer, TenureError)
        ):
            raise answer
        told.append(answer)
    return told


def _read_lines(name: str) -> list[tuple[int, str]]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"Cannot read {name}: {error}."
        raise WrongUsage(msg) from None
    return [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _order(number: int, line: str, prefix: str | None, common: dict[str, Any]) -> tuple[str, Any, SubmitOptions]:
    """A line of the file as `submit_many` wants it, with durations and times in words."""
    try:
        entry = json.loads(line)
    except ValueError as error:
        msg = f"line {number} is not JSON ({error}). Nothing after the lines before it was submitted."
        raise WrongUsage(msg) from None
    if not isinstance(entry, dict) or not ("type" in entry or "task_type" in entry):
        msg = f'line {number} must be an object with a type, like {{"type": "greet", "input": {{}}}}.'
        raise WrongUsage(msg)
    entry = {_SHORT.get(name, name): value for name, value in entry.items()}
    type_ = entry.pop("task_type", None) or entry.pop("type")
    value = entry.pop("input", None)
    for read, names in ((duration, _DURATIONS), (moment, _MOMENTS)):
        for name in names:
            if isinstance(entry.get(name), str):
                try:
                    entry[name] = read(entry[name])
                except typer.BadParameter as error:
                    msg = f"line {number}: {name}: {error.message}"
                    raise WrongUsage(msg) from None
    if isinstance(entry.get("slot"), list):
        entry["slot"] = tuple(entry["slot"])
    options = {**common, **entry}
    if prefix is not None and not {"idempotency_key", "task_id", "slot"} & options.keys():
        options["idempotency_key"] = f"{prefix}-{number}"
    # What is no option, or not of its type, is for the submit to refuse.
    return type_, value, cast("SubmitOptions", options)
