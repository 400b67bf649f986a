"""More shards for a queue: what the new ones will keep moves there, and everything else stays where it is.

Everything is put where it will be kept, as in any move; what stands there already is left alone. Only then is what
moved taken away from its old place. An interrupted growth is simply made again.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tenure import transfer
from tenure.queue import Queue
from tenure.stores import separated
from tenure.stores.base import Change, Store
from tenure.stores.sharded import ShardedStore
from tenure.stores.sharded.seating import settle
from tenure.stores.sharded.shard import Shard
from tenure.task import Event, Task, TaskStatus
from tenure.transfer import Advance, Report


def is_growth(source: str, target: str) -> bool:
    """Whether the second address names all stores of the first one, in their order, and more."""
    before, after = separated(source), separated(target)
    return len(before) < len(after) and after[: len(before)] == before


def before_growth(store: ShardedStore, before: int) -> Queue:
    """The queue as it was with fewer shards."""
    return Queue(ShardedStore(store.shards[:before]))


async def grow(target: Queue, before: int, advance: Advance = lambda _: None) -> Report:
    """Bring everything where a queue of more shards keeps it.

    While something runs or differs in two places, the queue keeps its old number of shards.
    """
    assert isinstance(target.store, ShardedStore)
    source = before_growth(target.store, before)
    for name, reason in (await source.paused()).items():
        await target.pause(name, reason)
    report = await transfer.copy(source, target, advance)
    if report.running or report.conflicts:
        return report
    for shard in target.store.shards[:before]:
        await _take_away(shard, target.store)
    # Where a task was, and its key or id still leads, there has to be a pointer to it now.
    async for piece in transfer.pieces(target.store):
        await target.store.restore(piece, await target.now())
    await settle(target.store.shards)
    return report


async def _take_away(shard: Shard, store: ShardedStore) -> None:
    """Forget what is kept in another shard by now."""
    async for piece in transfer.pieces(shard):
        moved = [task for task in piece.tasks if store.places.of_task(task) != shard.number]
        kept = await _kept(moved, store)
        now = await shard.now()
        changes = [Change(task, _gone(task, now)) for task in moved if _is_as_new(kept.get(task.id), task)]
        fitted = await shard.swap(changes)
        await shard.forget([change.after for change, fits in zip(changes, fitted, strict=True) if fits], now)


async def _kept(tasks: list[Task], store: ShardedStore) -> dict[str, Task]:
    """These tasks as they stand in the shards that keep them."""
    found: dict[str, Task] = {}
    parts: dict[Store, list[str]] = {}
    for task in tasks:
        parts.setdefault(store.shards[store.places.of_task(task)], []).append(task.id)
    for part, ids in parts.items():
        found |= {task.id: task for task in await part.get(ids) if task is not None}
    return found


def _is_as_new(kept: Task | None, task: Task) -> bool:
    return kept is not None and (kept.version, kept.history[-1]) == (task.version, task.history[-1])


def _gone(task: Task, now: datetime) -> Task:
    """What is left of a task where it no longer is, for the moment until that is forgotten without a stone."""
    event = Event(task.version + 1, TaskStatus.Cancelled, now, "moved to another shard", task.attempts, task.fence)
    return msgspec.structs.replace(
        task,
        status=event.status,
        version=event.number,
        cancelled_at=now,
        remember_until=None,
        history=(*task.history, event),
    )
