"""Tenure: durable background tasks on the storage you already run."""

from tenure.app import TaskFunction, Tenure
from tenure.errors import (
    CannotArchive,
    CannotCancel,
    CannotExpire,
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
from tenure.queue import CancelResult, Queue, QueueStats, WorkerInfo, connect
from tenure.retry import RetryPolicy
from tenure.stores.base import Page
from tenure.submission import SubmitOptions
from tenure.task import Event, Progress, Task, TaskStatus
from tenure.worker import BaseJobHandler, Context, Worker

__version__ = "0.1.0"

__all__ = [
    "BaseJobHandler",
    "CancelResult",
    "CannotArchive",
    "CannotCancel",
    "CannotExpire",
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
