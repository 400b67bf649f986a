"""Whether a store keeps its promises, tried out; and whether the queue on it is well."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from tenure import lifecycle, payload
from tenure.errors import StoreUnavailable, TenureError
from tenure.observe.alerts import ALERTS, State
from tenure.observe.figures import flow, look
from tenure.queue import Queue
from tenure.stores.base import Change, Want
from tenure.task import Task, TaskStatus

LANE = "tenure.doctor"
TROUBLE = ("alarms", "warning")
"""What a store tells of itself only when something is wrong."""
RACERS = 8
SLOW_MS = 100.0
CLOCK_TOLERANCE = 5.0


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at, what was found, and what to do about it."""

    name: str
    level: Literal["ok", "warning", "problem"]
    text: str
    fix: str = ""


async def examine(queue: Queue) -> AsyncIterator[Finding]:
    """Try the store with tasks of a queue of its own, then look at everyone's."""
    for name, value in (await queue.store.about()).items():
        yield Finding(name, "warning" if name in TROUBLE else "ok", value)
    for concern in await queue.store.concerns():
        yield Finding(concern.name, "problem" if concern.is_problem else "warning", concern.text, concern.fix)
    async for finding in _parts(queue):
        yield finding
    for name, check in (
        ("clock", _clock),
        ("reading", _reading),
        ("writing", _writing),
        ("create if absent", _create_if_absent),
        ("one claim wins", _one_claim_wins),
        ("compare and swap", _compare_and_swap),
    ):
        yield await _tried(name, queue, check)
    await _clean_up(queue)
    async for finding in _health(queue):
        yield finding


async def _parts(queue: Queue) -> AsyncIterator[Finding]:
    """Whether each part of the store answers, and whether they agree on the time."""
    parts = queue.store.parts()
    if len(parts) == 1:
        return
    clocks: list[float] = []
    for part in parts:
        try:
            await part.get(["no such task"])
            clocks.append((await part.now() - datetime.now(UTC)).total_seconds())
        except StoreUnavailable as error:
            fix = "Its tasks wait until it is back; all others go on."
            yield Finding(part.name, "problem", f"cannot be reached: {error}", fix)
        else:
            yield Finding(part.name, "ok", "answers")
    apart = max(clocks, default=0) - min(clocks, default=0)
    if apart > CLOCK_TOLERANCE:
        fix = "Let their clocks be synchronised, or listings mix the times of two clocks."
        yield Finding("clocks of the shards", "warning", f"{apart:.1f} s apart", fix)


async def _tried(name: str, queue: Queue, check: Callable[[Queue], Awaitable[Finding]]) -> Finding:
    try:
        return await check(queue)
    except TenureError as error:
        return Finding(name, "problem", str(error), "Without this, the store cannot be used.")


async def _clock(queue: Queue) -> Finding:
    before, first, after = datetime.now(UTC), await queue.now(), datetime.now(UTC)
    second = await queue.now()
    if second < first:
        return Finding(
            "clock", "problem", f"it went back by {first - second}", "Let the clock of the store be synchronised."
        )
    away = max((before - first).total_seconds(), (first - after).total_seconds(), 0)
    text = f"{away:.1f} s away from this machine's"
    if away > CLOCK_TOLERANCE:
        return Finding(
            "clock", "warning", text, "Tasks go by the store's clock; synchronise this machine's to avoid surprises."
        )
    return Finding("clock", "ok", text)


async def _reading(queue: Queue) -> Finding:
    return await _timed("reading", lambda: queue.get("no such task"))


async def _writing(queue: Queue) -> Finding:
    return await _timed("writing", lambda: _probe(queue))


async def _timed(name: str, call: Callable[[], Awaitable[Any]], times: int = 20) -> Finding:
    took = []
    for _ in range(times):
        start = time.perf_counter()
        await call()
        took.append((time.perf_counter() - start) * 1000)
    text = f"median {statistics.median(took):.1f} ms, slowest {max(took):.1f} ms of {times}"
    if statistics.median(took) > SLOW_MS:
        return Finding(name, "warning", text, "Run workers and producers closer to the store.")
    return Finding(name, "ok", text)


async def _create_if_absent(queue: Queue) -> Finding:
    key = secrets.token_hex(8)
    submissions = [await _submission(queue, key) for _ in range(RACERS)]
    tasks = await asyncio.gather(*(queue.store.insert([submission]) for submission in submissions))
    made = [task for (task,) in tasks if isinstance(task, Task)]
    created, ids = sum(task.created for task in made), {task.id for task in made}
    if created == 1 and len(ids) == 1 and len(made) == RACERS:
        return Finding("create if absent", "ok", f"{RACERS} submits of one key at once made one task")
    return Finding(
        "create if absent", "problem", f"{RACERS} submits of one key at once made {created} tasks with {len(ids)} ids",
        "This store does not keep conditional writes: do not use it.",
    )  # fmt: skip


async def _one_claim_wins(queue: Queue) -> Finding:
    task = await _probe(queue, f"{LANE}.claim")
    claims = await asyncio.gather(*(queue.store.claim(_want(number)) for number in range(RACERS)))
    owners = [claimed for claim in claims for claimed in claim.tasks if claimed.id == task.id]
    if len(owners) == 1:
        return Finding("one claim wins", "ok", f"of {RACERS} workers at once, one got the task")
    return Finding(
        "one claim wins", "problem", f"of {RACERS} workers at once, {len(owners)} got the task",
        "Tasks would run twice here: do not use this store.",
    )  # fmt: skip


async def _compare_and_swap(queue: Queue) -> Finding:
    task = await _probe(queue)
    now = await queue.now()
    changes = [Change(task, lifecycle.cancel(task, now, f"racer {number}")) for number in range(RACERS)]
    answers = await asyncio.gather(*(queue.store.swap([change]) for change in changes))
    winners = [change.after for change, (done,) in zip(changes, answers, strict=True) if done]
    stored = await queue.get(task.id)
    if len(winners) == 1 and stored == winners[0]:
        return Finding("compare and swap", "ok", f"of {RACERS} changes at once, one was made")
    return Finding(
        "compare and swap", "problem", f"of {RACERS} changes at once, {len(winners)} were made",
        "Changes would overwrite each other here: do not use this store.",
    )  # fmt: skip


async def _probe(queue: Queue, type: str = LANE) -> Task:  # noqa: A002 - the contract's name
    return await queue.submit(type, None, queue=LANE, ttl=3600)


async def _submission(queue: Queue, key: str) -> Any:
    from tenure.submission import build

    options: Any = {"queue": LANE, "idempotency_key": key, "idempotency_ttl": 5}
    return build(LANE, None, options, await queue.now(), queue.store.size_limit)


def _want(number: int, count: int = 1) -> Want:
    return Want(f"doctor-{number}", (LANE,), {f"{LANE}.claim": 1}, count, timedelta(minutes=1))


async def _clean_up(queue: Queue) -> None:
    """Nothing of the examination stays behind."""
    async for task in queue.scan(queue=LANE):
        if task.status is TaskStatus.Pending:
            task = await queue.cancel(task.id)  # noqa: PLW2901 - the same task, ended
        elif task.status is TaskStatus.Running:
            done = lifecycle.complete(task, task.fence, payload.NULL, await queue.now())
            await queue.store.swap([Change(task, done)])
            task = done  # noqa: PLW2901
        await queue.store.forget([task], await queue.now())


async def _health(queue: Queue) -> AsyncIterator[Finding]:
    """The rules of the alerts, asked of the queue itself."""
    state = State(await look(queue), await flow(queue))
    for alert in ALERTS:
        firing, text = alert.look(state)
        yield Finding(alert.name, alert.level, text, alert.action) if firing else Finding(alert.name, "ok", text)
