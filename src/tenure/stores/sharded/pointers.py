"""A pointer stands where a task is asked for, and says that it is kept elsewhere.

It is a stone, so that the store which holds it answers a repeated submit with it and never makes the task a second
time. No task has version 0, so a pointer is never taken for the stone of one.
"""

from __future__ import annotations

from datetime import datetime

from tenure.idempotency import Reservation
from tenure.task import Event, Task, TaskStatus
from tenure.times import FOREVER


def from_id(task: Task) -> Task:
    """Where a task's id leads: its ordering key leads on from there."""
    return _pointer(task.id, task.type, task.created_at, task.remember_until, task.ordering_key)


def from_key(reservation: Reservation, ordering_key: str | None = None) -> Task:
    """Where the record of a key is: the id that it names leads on from there, or, if that leads here, its ordering key."""
    return _pointer(
        reservation.task_id, reservation.task_type, reservation.created_at, reservation.expires_at, ordering_key
    )


def is_pointer(task: Task) -> bool:
    """Whether this is no task, but leads to one."""
    return task.version == 0


def _pointer(task_id: str, task_type: str, at: datetime, until: datetime | None, ordering_key: str | None) -> Task:
    return Task(
        id=task_id,
        type=task_type,
        created_at=at,
        available_at=at,
        status=TaskStatus.Cancelled,
        version=0,
        ordering_key=ordering_key,
        cancelled_at=at,
        remember_until=until or FOREVER,
        history=(Event(0, TaskStatus.Cancelled, at, "kept in another shard"),),
    )
