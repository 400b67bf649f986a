"""The filters of a query, for stores that look at tasks one by one."""

from __future__ import annotations

from tenure.stores.base import Query
from tenure.task import Task


def matches(task: Task, query: Query) -> bool:
    """Whether a task passes every filter of a query."""
    return (
        (query.status is None or task.status is query.status)
        and (query.type is None or task.type == query.type)
        and (query.queue is None or task.queue == query.queue)
        and (query.tag is None or query.tag in task.tags)
        and (query.worker_id is None or task.worker_id == query.worker_id)
        and (not query.cancel_requested or task.cancel_requested)
        and (query.ordering_key is None or task.ordering_key == query.ordering_key)
        and (query.created_before is None or task.created_at < query.created_before)
        and (query.available_by is None or task.available_at <= query.available_by)
        and (query.available_after is None or task.available_at > query.available_after)
        and task.attempts >= query.min_attempts
    )
