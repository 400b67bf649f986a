"""The steps of a worker, one at a time, as the tests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tenure import lifecycle, payload
from tenure.errors import TaskNotFound
from tenure.lifecycle import Failure
from tenure.queue import Queue
from tenure.retry import RetryPolicy
from tenure.stores.base import Change, Claimed, Hold, Query, Renewal, Store, Want
from tenure.task import Task, TaskStatus
from tenure.testing.faults import Fault

LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
LATE = [Fault("*", "delay", probability=0.5)]
"""A plan in which any call may come later than others, so that a race has more than one course."""
PLAIN = RetryPolicy(jitter=0)
"""A policy without chance: 0.2 s after the first failure, doubling, up to 25 attempts."""

Rule = Callable[[Task, datetime], Task]


def want(
    count: int = 1,
    *,
    by: str = "w1",
    types: Iterable[str] = ("greet",),
    queues: Iterable[str] = ("default",),
    lease: timedelta = LEASE,
    limit: int | None = 25,
) -> Want:
    return Want(by, tuple(queues), dict.fromkeys(types, limit), count, lease)


async def ask(store: Store, count: int = 1, **words: Any) -> Claimed:
    """The whole answer to a claim."""
    return await store.claim(want(count, **words))


async def claim(store: Store, count: int = 1, **words: Any) -> list[Task]:
    """The claimed tasks."""
    return list((await ask(store, count, **words)).tasks)


async def claim_one(store: Store, **words: Any) -> Task:
    (task,) = await claim(store, 1, **words)
    return task


async def change(store: Store, task_id: str, rule: Rule) -> Task:
    """Read, decide, swap, and again if another was faster: what every writer does."""
    while True:
        task = await read(store, task_id)
        after = rule(task, await store.now())
        if after is task or (await store.swap([Change(task, after)])) == [True]:
            return after


async def read(store: Store, task_id: str) -> Task:
    (task,) = await store.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    return task


async def complete(store: Store, held: Task, output: Any = None) -> Task:
    """End a claim well; `held` is the task as it was claimed."""
    raw = payload.to_json(output)
    return await change(store, held.id, lambda task, now: lifecycle.complete(task, held.fence, raw, now))


async def fail(
    store: Store, held: Task, text: str = "boom", *, permanent: bool = False, policy: RetryPolicy | None = PLAIN
) -> Task:
    failure = Failure(text, f"Traceback: {text}", permanent)
    return await change(store, held.id, lambda task, now: lifecycle.fail(task, held.fence, failure, policy, now, 0.5))


async def reschedule(store: Store, held: Task, delay: float, extend: float = 0) -> Task:
    return await change(store, held.id, lambda task, now: lifecycle.reschedule(task, held.fence, now, delay, extend))


async def release(store: Store, held: Task) -> Task:
    return await change(store, held.id, lambda task, now: lifecycle.release(task, held.fence, now, "given back"))


async def stop(store: Store, held: Task) -> Task:
    return await change(store, held.id, lambda task, now: lifecycle.stop(task, held.fence, now))


async def renew(store: Store, held: Task, lease: timedelta = LEASE) -> Hold:
    (hold,) = await store.renew([Renewal(held.id, held.fence, lease)])
    return hold


async def everything(store: Store, page: int = 7) -> list[Task]:
    """All tasks of the store, by way of all its pages."""
    tasks: list[Task] = []
    query = Query(limit=page)
    while True:
        found = await store.find(query)
        tasks += found.tasks
        if found.cursor is None:
            return tasks
        query = msgspec.structs.replace(query, cursor=found.cursor)


async def brought_to(client: Queue, status: TaskStatus | str, type: str = "greet", /, **options: Any) -> Task:  # noqa: A002
    """A new task that has come to this status."""
    status = TaskStatus(status)
    lane = options.get("queue", "default")
    task = await client.submit(type, {"for": str(status)}, **options)
    if status is TaskStatus.Expired:
        return await client.mark_expired(task.id)
    if status is TaskStatus.Cancelled:
        return await client.cancel(task.id, "not needed", "ada")
    if status is TaskStatus.Pending:
        return task
    held = await claim_one(client.store, types=[type], queues=[lane])
    assert held.id == task.id, "another task was due before"
    if status is TaskStatus.Running:
        return held
    if status is TaskStatus.Failed:
        return await fail(client.store, held, permanent=True)
    done = await complete(client.store, held, {"ok": True})
    return done if status is TaskStatus.Completed else await client.archive(task.id)


def ids(tasks: Iterable[Task]) -> list[str]:
    return [task.id for task in tasks]


def alike(task: Task) -> Task:
    """The task with its fences counted from one: which numbers grow is each store's own affair."""
    fences = sorted({0, task.fence, *(event.fence for event in task.history)})
    counted = {fence: number for number, fence in enumerate(fences)}
    replace = msgspec.structs.replace
    history = tuple(replace(event, fence=counted[event.fence]) for event in task.history)
    return replace(task, fence=counted[task.fence], history=history)
