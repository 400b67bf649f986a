"""The forms of keys: what stands where in the table and in its indexes."""

from __future__ import annotations

import hashlib
import re
import threading
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from tenure import ids
from tenure.errors import InvalidInput
from tenure.idempotency import Kind, Reservation
from tenure.times import from_text, to_micros, to_text

DUE, TIME, ALL = "tenure-due", "tenure-time", "tenure-all"
"""The indexes: what can run, what time will change or has ended, and everything by submit."""
KEYS_OF = {DUE: ("due_pk", "due_sk"), TIME: ("time_pk", "time_sk"), ALL: ("all_pk", "all_sk")}
LAST = "~"
"""Sorts after every character of a UUID."""
PARTITION_LIMIT, SORT_LIMIT = 2048, 1024
"""The most bytes of a partition key and of a sort key."""
COUNT_PARTITIONS = 4
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

Key = tuple[str, str]


def scheduled_key(moment: datetime, job: str) -> str:
    """The place of a job in an index: `scheduled#<ISO8601 in UTC>#<UUID>`.

    >>> from datetime import UTC
    >>> scheduled_key(datetime(2026, 1, 28, 17, tzinfo=UTC), "0197a3b0-0000-7000-8000-000000000001")
    'scheduled#2026-01-28T17:00:00.000000Z#0197a3b0-0000-7000-8000-000000000001'
    """
    if not is_uuid(job):
        msg = f"{job!r} is no UUID, and so no part of a key like scheduled#<ISO8601>#<UUID>."
        raise InvalidInput(msg)
    return f"scheduled#{to_text(moment)}#{job}"


def read_scheduled_key(key: str) -> tuple[datetime, str]:
    """The moment and the UUID of a key.

    >>> read_scheduled_key("scheduled#2026-01-28T17:00:00.000000Z#0197a3b0-0000-7000-8000-000000000001")[1]
    '0197a3b0-0000-7000-8000-000000000001'
    """
    parts = key.split("#")
    if len(parts) != 3 or parts[0] != "scheduled" or not _MOMENT.fullmatch(parts[1]) or not is_uuid(parts[2]):
        msg = f"{key!r} is no key like scheduled#2026-01-28T17:00:00.000000Z#<UUID>."
        raise InvalidInput(msg)
    return from_text(parts[1]), parts[2]


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in the usual form: small letters and four hyphens."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def quoted(name: str) -> str:
    """A name without slashes, to stand between slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def fitted(text: str, limit: int) -> str:
    """A text that may be longer than a key can be: then its beginning and a hash."""
    if len(text) * 4 <= limit or len(text.encode()) <= limit:
        return text
    return f"{text[:100]}~{hashlib.sha256(text.encode()).hexdigest()}"


class Lane(NamedTuple):
    """Tasks that are claimed in due order: of one queue, type and priority."""

    queue: str
    type: str
    priority: int

    @property
    def name(self) -> str:
        """The lane in a key."""
        return f"{quoted(self.queue)}/{quoted(self.type)}/{self.priority}"


class Keys:
    """Every key of one store in a table: all begin with its prefix."""

    def __init__(self, prefix: str, shards: int = 1) -> None:
        self.prefix, self.shards = prefix, shards
        self.settings: Key = (f"{prefix}tenure", "settings")
        self.lanes = f"{prefix}lanes"
        self._task = f"{prefix}job#"

    def task(self, task_id: str) -> Key:
        """Where a task is, or the stone that it left."""
        return self._task + task_id, "job"

    def task_id(self, pk: str) -> str:
        """The id of the task at a key."""
        return pk.removeprefix(self._task)

    def reservation(self, reservation: Reservation) -> Key:
        """Where the record of a key or a slot is; slots have a partition per subject and an item per day."""
        if reservation.kind is Kind.Slot:
            what, _, day = reservation.key.rpartition("#")
            return self._partition(f"scheduled-job#{what}"), fitted(day, SORT_LIMIT)
        scope = f"{reservation.kind}#{len(reservation.scope)}#{reservation.scope}#{reservation.key_hash}"
        return self._partition(f"key#{scope}"), "key"

    def note(self, kind: str, key: str) -> Key:
        """Where a note is."""
        return self.notes(kind), fitted(key, SORT_LIMIT)

    def notes(self, kind: str) -> str:
        """Where all notes of a kind are."""
        return self._partition(f"note#{kind}")

    def order(self, ordering_key: str) -> str:
        """Where the turns of an ordering key are."""
        return self._partition(f"order#{ordering_key}")

    def lane(self, lane: Lane) -> Key:
        """Where it is written that a lane is in use."""
        return self.lanes, fitted(lane.name, SORT_LIMIT)

    def counts(self) -> list[str]:
        """Where the counts are."""
        return [f"{self.prefix}count#{number}" for number in range(COUNT_PARTITIONS)]

    def count(self, part: int, queue: str, type: str) -> Key:  # noqa: A002 - the contract's names
        """Where a part of the counts of one queue and type is."""
        name = f"{part}/{quoted(queue)}/{quoted(type)}"
        return self.counts()[part % COUNT_PARTITIONS], fitted(name, SORT_LIMIT)

    def shard(self, task_id: str) -> int:
        """The shard of a task."""
        return zlib.crc32(task_id.encode()) % self.shards

    def due(self, lane: Lane, shard: int) -> str:
        """Where a lane stands in the index of what can run."""
        return self._sharded("job", shard, f"/{lane.name}")

    def leases(self, shard: int) -> str:
        """Where running tasks stand, each at the end of its lease."""
        return self._sharded("job", shard, "/running")

    def deadlines(self, shard: int) -> str:
        """Where pending tasks with a deadline stand, each at that."""
        return self._sharded("job", shard, "/deadline")

    def ended(self, status: str, shard: int) -> str:
        """Where ended tasks of a status stand, each at its end."""
        return self._sharded("ended", shard, f"/{status}")

    def outdated(self, what: str, shard: int) -> str:
        """Where stones or records of keys stand, each at its own end."""
        return self._sharded(what, shard, "")

    def listed(self, part: str, shard: int) -> str:
        """Where open or ended tasks stand in the order of their submits."""
        return self._sharded(part, shard, "")

    def every(self, place: Any, *words: Any) -> list[str]:
        """The same place in all shards."""
        return [place(*words, shard) for shard in range(self.shards)]

    def _sharded(self, what: str, shard: int, rest: str) -> str:
        return self._partition(f"{what}{f'#{shard}' if self.shards > 1 else ''}{rest}")

    def _partition(self, name: str) -> str:
        return fitted(self.prefix + name, PARTITION_LIMIT)


class Ranks:
    """Gives each task its place in the order of submits: a UUIDv7, and as a rule its own id.

    Another one is given where ids say another order than the submits: to ids that producers chose,
    and within a batch after such an id. Places given by one process always grow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = ""

    def next(self, task_id: str, now: datetime, *, chosen: bool) -> str:
        """The place of a task that is submitted now."""
        with self._lock:
            fits = task_id > self._last and is_uuid(task_id) and (not chosen or _is_from_before(task_id, now))
            self._last = task_id if fits else max(ids.new_id(now), following(self._last))
            return self._last


RANKS = Ranks()


def following(rank: str) -> str:
    """The place right after another one."""
    return str(UUID(int=UUID(rank).int + 1)) if rank else ""


def _is_from_before(task_id: str, now: datetime) -> bool:
    uuid = UUID(task_id)
    return uuid.version == 7 and uuid.int >> 80 <= to_micros(now) // 1000


def split(items: list[Any], size: int) -> Iterator[list[Any]]:
    """A list in pieces."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
