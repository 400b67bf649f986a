"""The words people use for statuses: the contract's own, and those of the systems it unites."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tenure.errors import InvalidInput, one_of
from tenure.stores.base import Query
from tenure.task import TaskStatus

STATUSES = {status.value: status for status in TaskStatus} | {
    "in_progress": TaskStatus.Running,
    "claimed": TaskStatus.Running,
    "inflight": TaskStatus.Running,
    "dead_letter": TaskStatus.Failed,
    "dlq": TaskStatus.Failed,
    "dead": TaskStatus.Failed,
    "done": TaskStatus.Completed,
}
_VIEWS = ("ready", "scheduled", "retrying")

STATUS_WORDS = (*STATUSES, *_VIEWS)


def plain(word: str) -> str:
    """A word as people type it, in the one form that is looked up."""
    return str(word).strip().lower().replace("-", "_")


def narrowed(query: Query, word: str, now: datetime) -> Query:
    """The query limited to what a status word means at this time; an unknown word is refused with the list of words."""
    word = plain(word)
    if word in STATUSES:
        return msgspec.structs.replace(query, status=STATUSES[word])
    views: dict[str, dict[str, Any]] = {
        "ready": {"available_by": now},
        "scheduled": {"available_after": now},
        "retrying": {"min_attempts": 1},
    }
    if word not in views:
        raise InvalidInput(one_of("status", word, STATUS_WORDS))
    return msgspec.structs.replace(query, status=TaskStatus.Pending, **views[word])
