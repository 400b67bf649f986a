"""Workers: claim, run, settle."""

from tenure.worker.context import Context
from tenure.worker.handlers import BaseJobHandler
from tenure.worker.worker import Worker

__all__ = ["BaseJobHandler", "Context", "Worker"]
