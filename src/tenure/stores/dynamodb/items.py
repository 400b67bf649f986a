"""Tasks as items: the attributes of the scheduled-jobs document, a record of the rest, and places in the indexes."""

from __future__ import annotations

import logging
import zlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.payload import NULL
from tenure.stores.dynamodb.keys import Keys, Lane, is_uuid, scheduled_key
from tenure.stores.dynamodb.wire import Item
from tenure.task import OPEN, Progress, Task, TaskStatus, decode, encode
from tenure.times import from_text, to_text

log = logging.getLogger("tenure.store")

DAMAGED = "damaged"
FIXED = ("job_type", "payload", "created_at", "queue", "ordering_key", "tags")
"""Attributes that no transition changes."""
CLAIM = ("claimed_at", "policy_max")
"""A claim stands beside the record from before it, until the next change."""
PLACES = ("due_pk", "due_sk", "time_pk", "time_sk", "all_pk", "all_sk")
_COMPRESS_FROM = 4096
"""Bytes of a record from which it is compressed: long histories repeat themselves, and a write costs by the kilobyte."""

_BESIDE: dict[str, Any] = {
    "id": "",
    "type": "",
    "input_json": NULL,
    "status": TaskStatus.Pending,
    "worker_id": None,
    "lease_expires_at": None,
    "attempts": 0,
    "last_error": None,
    "completed_at": None,
    "queue": "default",
    "version": 1,
    "fence": 0,
    "expires_at": None,
    "ordering_key": None,
    "tags": (),
    "progress": None,
    "created": True,
}
"""What the record does not say again, because attributes beside it do."""
_progress_decoder = msgspec.json.Decoder(Progress)
replace = msgspec.structs.replace


def attributes(task: Task) -> dict[str, Any]:
    """Every attribute of a task but its places; None where it has none."""
    record = encode(replace(task, **_BESIDE))
    return {
        "job_type": task.type,
        "payload": bytes(task.input_json).decode(),
        "scheduled_for": to_text(task.available_at),
        "status": task.status.value,
        "locked_by": task.worker_id,
        "lock_expires_at": _optional(task.lease_expires_at),
        "attempts": task.attempts,
        "last_error": task.last_error,
        "created_at": to_text(task.created_at),
        "completed_at": _optional(task.completed_at),
        "queue": task.queue,
        "version": task.version,
        "fence": task.fence,
        "expires_at": _optional(task.expires_at),
        "ordering_key": task.ordering_key,
        "tags": list(task.tags) or None,
        "progress": msgspec.json.encode(task.progress).decode() if task.progress else None,
        "record": record.decode() if len(record) < _COMPRESS_FROM else zlib.compress(record, 6),
    }


def present(values: dict[str, Any]) -> Item:
    """Only the attributes that have a value."""
    return {name: value for name, value in values.items() if value is not None}


def changed(task: Task) -> dict[str, Any]:
    """The attributes that a transition may change; what stood beside the record is in it now."""
    return {name: value for name, value in attributes(task).items() if name not in FIXED} | dict.fromkeys(CLAIM)


def places(keys: Keys, task: Task, rank: str, *, blocked: bool = False) -> dict[str, Any]:
    """Where a task stands in the indexes; None where it does not."""
    shard = keys.shard(task.id)
    found: dict[str, Any] = dict.fromkeys(PLACES)
    found["all_pk"], found["all_sk"] = keys.listed("open" if task.status in OPEN else "ended", shard), rank
    if task.status is TaskStatus.Pending:
        if not blocked:
            lane = Lane(task.queue, task.type, task.priority)
            found["due_pk"], found["due_sk"] = keys.due(lane, shard), scheduled_key(task.available_at, rank)
        if task.expires_at is not None:
            found["time_pk"], found["time_sk"] = keys.deadlines(shard), scheduled_key(task.expires_at, rank)
    elif task.status is TaskStatus.Running:
        assert task.lease_expires_at is not None
        found["time_pk"], found["time_sk"] = keys.leases(shard), scheduled_key(task.lease_expires_at, rank)
    else:
        assert task.ended_at is not None
        found["time_pk"] = keys.ended(task.status.value, shard)
        found["time_sk"] = f"{to_text(task.ended_at)}#{rank}"
    return found


def load(item: Item, task_id: str) -> Task:
    """An item as a task. A claim that stands beside the record is made again, by the same rule."""
    try:
        task = _load(item, task_id)
        if item.get("claimed_at") is None:
            return task
        before = replace(
            task,
            status=TaskStatus.Pending,
            version=task.version - 1,
            fence=task.fence - 1,
            worker_id=None,
            lease_expires_at=None,
        )
        claimed = lifecycle.claim(
            before,
            worker_id=item["locked_by"],
            now=from_text(item["claimed_at"]),
            lease=timedelta(0),
            policy_max=item.get("policy_max"),
        )
    except DamagedRecord:
        raise
    except Exception as error:
        raise DamagedRecord(task_id, f"{type(error).__name__}: {error}") from None
    return replace(claimed, lease_expires_at=task.lease_expires_at, progress=task.progress)


def _load(item: Item, task_id: str) -> Task:
    record = item["record"]
    task = decode(record.encode() if isinstance(record, str) else zlib.decompress(record), task_id)
    progress = item.get("progress")
    return replace(
        task,
        id=task_id,
        type=item["job_type"],
        input_json=msgspec.Raw(item["payload"].encode()),
        available_at=from_text(item["scheduled_for"]),
        status=TaskStatus(item["status"]),
        worker_id=item.get("locked_by"),
        lease_expires_at=_moment(item.get("lock_expires_at")),
        attempts=item["attempts"],
        last_error=item.get("last_error"),
        created_at=from_text(item["created_at"]),
        completed_at=_moment(item.get("completed_at")),
        queue=item["queue"],
        version=item["version"],
        fence=item["fence"],
        expires_at=_moment(item.get("expires_at")),
        ordering_key=item.get("ordering_key"),
        tags=tuple(item.get("tags", ())),
        progress=None if progress is None else _progress_decoder.decode(progress),
    )


def is_stone(item: Item) -> bool:
    """Whether an item is what a forgotten task has left."""
    return "stone" in item


class KnownRanks:
    """The places of tasks whose place is not their id, as far as they were seen of late."""

    LIMIT = 10_000

    def __init__(self) -> None:
        self._ranks: dict[str, str] = {}

    def learn(self, task_id: str, item: Item) -> str:
        """Take note of a task's place."""
        rank: str = item["all_sk"]
        if rank != task_id:
            if len(self._ranks) >= self.LIMIT:
                self._ranks.clear()
            self._ranks[task_id] = rank
        return rank

    def guess(self, task_id: str) -> str | None:
        """The place of a task, most likely; None when nothing is known of it."""
        return self._ranks.get(task_id) or (task_id if is_uuid(task_id) else None)


def _optional(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else from_text(text)
