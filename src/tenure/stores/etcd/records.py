"""Tasks as they are stored: a record, and while it runs a claim beside it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from tenure import lifecycle
from tenure.errors import CannotClaim, DamagedRecord
from tenure.stores.etcd.client import Client
from tenure.stores.etcd.layout import Layout, unpack
from tenure.stores.etcd.requests import KeyValue, get
from tenure.task import Progress, Task, TaskStatus, decode

log = logging.getLogger("tenure.store")

ANOTHER = "it is another one than the entries that lead to it say"
REMEMBERED = 20_000
"""Tasks whose revisions are kept in mind, so that the next change of them needs no reading."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The value of a claim. Its fence is the revision at which its key was made.

    Renewals write it again, which changes neither that revision nor the record. A task that came from another
    store with a higher fence goes on from there (`above`), and one that was moved while it ran keeps its `fence`.
    """

    worker_id: str
    at: datetime
    lease_expires_at: datetime
    policy_max: int | None = None
    progress: Progress | None = None
    cancel_requested: bool = False
    above: int = 0
    fence: int = 0
    ordering_key: str | None = None
    """What the record says, too: a harmed one may not, and the next task of the key is to get its turn."""

    def fence_at(self, revision: int) -> int:
        """The fence of a claim that was made at this revision."""
        return self.fence or max(revision, self.above + 1)


_claim_decoder = msgspec.json.Decoder(Claim)
read_claim = _claim_decoder.decode


class Stored(NamedTuple):
    """A task, its place in the order of submits, and the revisions that tell whether it is still the same."""

    task: Task
    place: bytes
    revision: int
    claim: Claim | None = None
    claimed_at: int = 0
    renewed_at: int = 0


class Sight(NamedTuple):
    """What is kept in mind of a task that was seen or written."""

    version: int
    place: bytes
    revision: int
    claimed_at: int


class Memory(OrderedDict[str, Sight]):
    """The tasks that this process saw last. It may be outdated: a transaction finds out."""

    def keep(self, stored: Stored) -> None:
        """Keep a task in mind."""
        self.put(stored.task.id, Sight(stored.task.version, stored.place, stored.revision, stored.claimed_at))

    def put(self, task_id: str, sight: Sight) -> None:
        """Keep what was just written."""
        self[task_id] = sight
        if len(self) > REMEMBERED:
            self.popitem(last=False)


def load(task_id: str, record: KeyValue, claim_kv: KeyValue | None) -> Stored:
    """A task as it is: what its claim has made of it is computed again, by the same rule."""
    place, json = unpack(record.value)
    task = decode(json, task_id)
    if task.id != task_id:
        raise DamagedRecord(task_id, ANOTHER)
    if claim_kv is None:
        return Stored(task, place, record.mod_revision)
    claim = read_claim(claim_kv.value)
    if task.status is TaskStatus.Pending:
        task = claimed(task, claim, claim_kv.create_revision)
    if task.status is not TaskStatus.Running or (claim.ordering_key or task.ordering_key) != task.ordering_key:
        raise DamagedRecord(task_id, ANOTHER)
    task = msgspec.structs.replace(task, lease_expires_at=claim.lease_expires_at, progress=claim.progress)
    return Stored(task, place, record.mod_revision, claim, claim_kv.create_revision, claim_kv.mod_revision)


def claimed(task: Task, claim: Claim, revision: int) -> Task:
    """What a claim makes of a pending task."""
    try:
        task = lifecycle.claim(
            task,
            worker_id=claim.worker_id,
            now=claim.at,
            lease=timedelta(0),
            policy_max=claim.policy_max,
            fence=claim.fence_at(revision),
        )
    except CannotClaim as error:
        raise DamagedRecord(task.id, str(error)) from None
    return msgspec.structs.replace(task, lease_expires_at=claim.lease_expires_at)


async def read_pairs(
    client: Client, layout: Layout, ids: Sequence[str]
) -> list[tuple[KeyValue | None, KeyValue | None]]:
    """The record and the claim of each of these, both of the same moment."""
    ops = [op for task_id in ids for op in (get(layout.task(task_id)), get(layout.claim(task_id)))]
    found = [_first(answer.response_range.kvs) for answer in await client.read(ops)] if ops else []
    return list(zip(found[::2], found[1::2], strict=True))


async def read_tasks(
    client: Client, layout: Layout, memory: Memory, ids: Sequence[str]
) -> list[Stored | DamagedRecord | None]:
    """The tasks with these ids, in that order; where one cannot be read, why."""
    found: list[Stored | DamagedRecord | None] = []
    for task_id, (record, claim) in zip(ids, await read_pairs(client, layout, ids), strict=True):
        try:
            stored = None if record is None else load(task_id, record, claim)
        except DamagedRecord as damage:
            found.append(damage)
            continue
        if stored is not None:
            memory.keep(stored)
        found.append(stored)
    return found


def _first(found: Sequence[KeyValue]) -> KeyValue | None:
    return found[0] if found else None
