"""What one change writes, and on which condition."""

from __future__ import annotations

from typing import Any

from tenure.stores.base import Change
from tenure.stores.dynamodb.items import changed, places
from tenure.stores.dynamodb.together import Parts
from tenure.stores.dynamodb.wire import Condition, Item, both, equal
from tenure.task import TaskStatus
from tenure.times import to_text

RENEWED = ("locked_by", "lock_expires_at", "progress", "time_pk", "time_sk")
"""What a renewal may have written after a change of a running task was computed."""


def unchanged(change: Change, rank: str) -> Condition:
    """The stored version is still the one that the change was computed from."""
    lease = change.before.lease_expires_at
    unrenewed = equal(lock_expires_at=None if lease is None else to_text(lease)) if change.if_unrenewed else None
    return both(equal(version=change.before.version, all_sk=rank), unrenewed)


def new_values(parts: Parts, change: Change, rank: str, *, blocked: bool = False) -> dict[str, Any]:
    """What a change writes. A task that goes on running keeps what was renewed meanwhile."""
    values = changed(change.after) | places(parts.keys, change.after, rank, blocked=blocked)
    if change.before.status is TaskStatus.Running and change.after.status is TaskStatus.Running:
        values = {name: value for name, value in values.items() if name not in RENEWED}
    return values


def another_rank(parts: Parts, task_id: str, item: Item | None, rank: str) -> bool:
    """Whether a condition failed because the place of the task was guessed wrongly."""
    return item is not None and "all_sk" in item and parts.ranks.learn(task_id, item) != rank
