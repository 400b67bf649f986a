"""Names of objects. A listing in order of names is the order in which segments need attention.

In `tasks/{shard}/` come first the segments of tasks that were due soon when they were written,
`{priority}-{time}-{tail}.json`: the highest priority first, then the earliest time at which a task
in it is due or expires. Then `k-{hash}.json`, each with all open tasks of one ordering key. Last come
the segments of tasks that wait for long, `z{time}-{priority}-{tail}.json`, the soonest first, so that
however many they are, none stands before one that can run. The tail is part of the ids in the segment.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime, timedelta
from functools import lru_cache

from tenure.idempotency import Reservation
from tenure.submission import PRIORITY_LIMIT
from tenure.task import Task, TaskStatus
from tenure.times import EPOCH, from_micros, to_micros

LAYOUT = "tenure.json"
PAUSES = "-pause.json"
"""Sorts before everything else in a shard, so that every listing shows whether the pauses have changed."""
LONG = timedelta(seconds=60)
"""A task that waits for longer than this stands at the end of the listing."""
_READY = re.compile(r"tasks/\d{3}/(?P<priority>[0-9a-f]{4})-(?P<time>[0-9a-f]{12})-(?P<tail>[0-9a-f]{12})\.json")
_LATER = re.compile(r"tasks/\d{3}/z(?P<time>[0-9a-f]{12})-(?P<priority>[0-9a-f]{4})-(?P<tail>[0-9a-f]{12})\.json")
_LANE = re.compile(r"tasks/\d{3}/k-[0-9a-f]{40}\.json")
_PACK = re.compile(r"done/\d{3}/\d{8}\.json")
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,100}")


def tasks_folder(shard: int) -> str:
    """Where the open tasks of a shard are."""
    return f"tasks/{shard:03d}/"


def done_folder(shard: int) -> str:
    """Where the packs of a shard are."""
    return f"done/{shard:03d}/"


def pack_name(shard: int, number: int) -> str:
    """The packs of a shard are numbered from 1."""
    return f"{done_folder(shard)}{number:08d}.json"


def segment_name(shard: int, priority: int, moment: datetime, tail: str, now: datetime, earlier: int = 0) -> str:
    """`earlier` tells segments of one batch apart: a name may promise a time before the true one, never after."""
    time = f"{max(milliseconds(moment) - earlier, 0):012x}"
    rank = f"{PRIORITY_LIMIT - priority:04x}"
    order = f"z{time}-{rank}" if moment - now > LONG else f"{rank}-{time}"
    return f"{tasks_folder(shard)}{order}-{tail}.json"


def milliseconds(moment: datetime) -> int:
    """A moment as names have it."""
    return to_micros(max(moment, EPOCH)) // 1000


def lane_name(ordering_key: str, shards: int) -> str:
    """The object of an ordering key."""
    digest = hashlib.sha256(ordering_key.encode()).hexdigest()
    return f"{tasks_folder(int(digest[:8], 16) % shards)}k-{digest[:40]}.json"


def is_lane(name: str) -> bool:
    """Whether an object holds the tasks of an ordering key."""
    return name.startswith("k-", len("tasks/000/"))


def is_pack(name: str) -> bool:
    """Whether an object holds ended tasks."""
    return name.startswith("done/")


def holds_tasks(name: str) -> bool:
    """Whether this is the name of an object with tasks, and nothing else."""
    return _parts(name) is not None or any(form.fullmatch(name) for form in (_LANE, _PACK))


def may_hold(name: str, task_id: str) -> bool:
    """Whether the name alone says that a task may be in it: a batch's tail, or the bucket of an ordering key."""
    if is_lane(name):
        start = len("tasks/000/k-")
        return name[start : start + 4] == task_id[-4:]
    return tail_in(name) == tail_of(task_id)


def shard_of(name: str) -> int:
    """The shard in the name of a segment, lane or pack."""
    return int(name.split("/")[1])


def _parts(name: str) -> re.Match[str] | None:
    return _READY.fullmatch(name) or _LATER.fullmatch(name)


@lru_cache(maxsize=20_000)
def promised(name: str) -> tuple[int, int] | None:
    """The order that a segment's name promises: nothing in it comes before (-priority, milliseconds)."""
    found = _parts(name)
    return None if found is None else (int(found["priority"], 16) - PRIORITY_LIMIT, int(found["time"], 16))


def is_later(name: str) -> bool:
    """Whether a segment waited for long when it was written."""
    return _LATER.fullmatch(name) is not None


def tail_in(name: str) -> str:
    """The tail of a segment's name."""
    found = _parts(name)
    return found["tail"] if found else ""


def tail_of(task_id: str) -> str | None:
    """The part of an id that Tenure made which all ids of a batch share; None for one that a producer chose."""
    return task_id[19:23] + task_id[24:32] if _UUID7.fullmatch(task_id) else None


def born(task_id: str) -> datetime:
    """The time in an id that Tenure made."""
    return from_micros(int(task_id[:8] + task_id[9:13], 16) * 1000)


def shard_for(tail: str, shards: int) -> int:
    """The shard of new segments with this tail."""
    return int(tail, 16) % shards


def fresh_tail() -> str:
    """A tail for tasks whose ids have none."""
    return secrets.token_hex(6)


def attention(task: Task) -> datetime:
    """When time does something to a pending task: it comes due, or its deadline passes."""
    assert task.status is TaskStatus.Pending
    return task.available_at if task.expires_at is None else min(task.available_at, task.expires_at)


def id_name(task_id: str) -> str:
    """The record of an id."""
    return f"ids/{hashlib.sha256(task_id.encode()).hexdigest()}.json"


def reservation_name(record: Reservation) -> str:
    """The record of a key or slot."""
    scope = record.scope
    if not _PLAIN.fullmatch(scope):
        # A name that no plain scope can have: plain ones hold no '~'.
        scope = f"~{hashlib.sha256(scope.encode()).hexdigest()}"
    return f"idempotency/{record.kind}-{scope}/{record.key_hash.rpartition(':')[2]}.json"


def notes_folder(kind: str) -> str:
    """Where the notes of a kind are."""
    return f"notes/{hashlib.sha256(kind.encode()).hexdigest()[:32]}/"


def note_name(kind: str, key: str) -> str:
    """The object of a note."""
    return f"{notes_folder(kind)}{hashlib.sha256(key.encode()).hexdigest()}.json"
