"""Tenure: durable background tasks on the storage you already run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.app import TaskFunction, Tenure
    from tenure.errors import (
        CannotArchive,
        CannotCancel,
        CannotExpire,
        CannotPurge,
        CannotRetry,
        ConcurrentChange,
        DamagedRecord,
        IdempotencyConflict,
        InvalidHandler,
        InvalidInput,
        InvalidURL,
        LeaseLost,
        MissingExtra,
        PermanentError,
        RescheduleError,
        ResultTimeout,
        StoreClosed,
        StoreError,
        StoreFull,
        StoreTooNew,
        StoreUnavailable,
        StoreUnusable,
        TaskNotFound,
        TaskUnsuccessful,
        TenureError,
        TransitionRefused,
        Unrecoverable,
    )
    from tenure.queue import CancelResult, Queue, connect
    from tenure.retry import RetryPolicy
    from tenure.stores.base import Page
    from tenure.submission import SubmitOptions
    from tenure.survey import QueueStats, WorkerInfo
    from tenure.task import Event, Progress, Task, TaskStatus
    from tenure.worker import BaseJobHandler, Context, Worker

__version__ = "0.1.0"

__all__ = [
    "BaseJobHandler",
    "CancelResult",
    "CannotArchive",
    "CannotCancel",
    "CannotExpire",
    "CannotPurge",
    "CannotRetry",
    "ConcurrentChange",
    "Context",
    "DamagedRecord",
    "Event",
    "IdempotencyConflict",
    "InvalidHandler",
    "InvalidInput",
    "InvalidURL",
    "LeaseLost",
    "MissingExtra",
    "Page",
    "PermanentError",
    "Progress",
    "Queue",
    "QueueStats",
    "RescheduleError",
    "ResultTimeout",
    "RetryPolicy",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreTooNew",
    "StoreUnavailable",
    "StoreUnusable",
    "SubmitOptions",
    "Task",
    "TaskFunction",
    "TaskNotFound",
    "TaskStatus",
    "TaskUnsuccessful",
    "Tenure",
    "TenureError",
    "TransitionRefused",
    "Unrecoverable",
    "Worker",
    "WorkerInfo",
    "connect",
]

_HOMES = {
    "app": ("TaskFunction", "Tenure"),
    "queue": ("CancelResult", "Queue", "connect"),
    "retry": ("RetryPolicy",),
    "stores.base": ("Page",),
    "submission": ("SubmitOptions",),
    "survey": ("QueueStats", "WorkerInfo"),
    "task": ("Event", "Progress", "Task", "TaskStatus"),
    "worker": ("BaseJobHandler", "Context", "Worker"),
}
"""Where each name lives; all others are errors."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the command line starts without loading what it does not need."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = next((module for module, names in _HOMES.items() if name in names), "errors")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
