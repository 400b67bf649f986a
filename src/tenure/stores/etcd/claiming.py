"""Claims: one read that shows what is due, then one transaction for each group of tasks that are taken.

A claim does not touch the record. It takes the due entry away, which only one can do, and puts a
claim beside the record; the revision at which that happens is the fence.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import PAUSE, Claimed, Want, can_claim, first_of_each, paused_queues
from tenure.stores.base import Due as FirstDue
from tenure.stores.etcd.damage import discard, set_aside
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.lapsing import enter_lease, overdue_ops, settle_overdue
from tenure.stores.etcd.layout import (
    CHANGED,
    RUNNING,
    Due,
    Lane,
    after,
    lane_of,
    moment,
    name,
    plain,
    read_lane,
    unpack,
)
from tenure.stores.etcd.noting import read_notes
from tenure.stores.etcd.records import ANOTHER, Claim, Sight, claimed, read_pairs
from tenure.stores.etcd.requests import KeyValue, created_at, get, unmodified, walk
from tenure.stores.etcd.turns import LIMIT as TURNS
from tenure.stores.etcd.turns import settle_turns
from tenure.stores.etcd.writing import Batch
from tenure.task import Task, TaskStatus, decode
from tenure.times import EPOCH, from_text

GROUP = 40
"""Tasks that one transaction takes: each has up to two conditions, and room must be left for what it writes."""
TRIES = 50

_due_decoder = msgspec.json.Decoder(Due)


class Candidate(NamedTuple):
    """A due entry. Candidates sort in the order in which tasks are claimed."""

    rank: tuple[int, bytes, bytes, bytes]
    lane: Lane
    task_id: str
    key: bytes
    revision: int
    due: Due


class Search:
    """One claim of a worker."""

    def __init__(self, db: Database, lanes: set[Lane], want: Want, clock: Callable[[], Awaitable[datetime]]) -> None:
        self.db, self.lanes, self.want, self.clock = db, lanes, want, clock
        self.now = EPOCH
        self.tasks: list[tuple[tuple[int, bytes, bytes, bytes], Task]] = []
        self.settled: list[Task] = []
        self.queues: set[str] = set()
        self.sweeping = True

    async def run(self) -> Claimed:
        """Settle what time has caught up with, take what is due, and say when more will be."""
        beaten = 0
        for _ in range(TRIES):
            self.now = await self.clock()
            left = self.want.count - len(self.tasks)
            # Where others are claiming too, look further than they do.
            candidates = await self._look(left if beaten < 2 else 4 * left)
            if candidates is None:
                continue
            if not left or not candidates:
                break
            if beaten > 1 and len(candidates) > left:
                start = random.randrange(len(candidates) - left + 1)  # noqa: S311 - spreading workers
                candidates = candidates[start:]
            if await self._take(candidates[:left]):
                break
            beaten += 1
        tasks = [task for _, task in sorted(self.tasks, key=lambda taken: taken[0])]
        return Claimed(tasks, self.settled, None if tasks else await self._next_due())

    async def _look(self, count: int) -> list[Candidate] | None:
        """What is due, in order; None when something had to be settled before."""
        layout = self.db.layout
        pauses, unsettled = layout.folder(b"note", name(PAUSE)), layout.folder(b"unsettled")
        told = layout.folder(b"news", CHANGED)
        marks = [layout.folder(b"lane", name(queue)) for queue in self.want.queues]
        wanted = self._wanted()
        found = await self.db.read(
            [
                walk(pauses, after(pauses)),
                walk(unsettled, after(unsettled), TURNS),
                *overdue_ops(self.db, self.now, 1, 1),
                walk(told, after(told)),
                *(walk(mark, after(mark), keys_only=True) for mark in marks),
                *self._due_ops(wanted, count),
            ]
        )
        self._not_before(kv.value for kv in found[4])
        self.queues = set(self.want.queues) - paused_queues(read_notes(PAUSE, found[0]), self.now)
        if found[1]:
            await settle_turns(self.db, found[1])
            return None
        if (found[2] or found[3]) and self.sweeping:
            settled = await settle_overdue(self.db, self.now)
            self.settled += settled
            # What another settles at this moment is not waited for.
            self.sweeping = bool(settled)
            return None
        self.lanes.update(read_lane(kv.key) for kvs in found[5 : 5 + len(marks)] for kv in kvs)
        lanes = list(zip(wanted, found[5 + len(marks) :], strict=True))
        if new := [lane for lane in self._wanted() if lane not in wanted]:
            lanes += zip(new, await self.db.read(self._due_ops(new, count)), strict=True)
        candidates = [_candidate(lane, kv) for lane, kvs in lanes if lane.queue in self.queues for kv in kvs]
        late = [each for each in candidates if self._is_late(each)]
        if late and not found[3]:
            await self._strike(late)
            return None
        return sorted(each for each in candidates if not self._is_late(each))[: max(count, 0)]

    def _not_before(self, told: Iterable[bytes]) -> None:
        """A claim is not earlier than what was written before it, whoever's count of seconds is behind."""
        latest = max(told, default=b"")
        if latest and (at := from_text(latest.decode())) > self.now:
            self.now = at
            self.db.hear_of(at)

    def _wanted(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.queue in self.want.queues and lane.type in self.want.types]

    def _due_ops(self, lanes: Sequence[Lane], count: int) -> list[object]:
        folders = [self.db.layout.due_folder(lane) for lane in lanes]
        until = moment(self.now) + b"0"
        return [walk(folder, folder + until, max(count, 1)) for folder in folders]

    def _is_late(self, candidate: Candidate) -> bool:
        return candidate.due.expires_at is not None and self.now >= candidate.due.expires_at

    async def _strike(self, late: Sequence[Candidate]) -> None:
        """Take away what is left of late tasks that were set aside: nobody else will, as they have no deadline."""
        for start in range(0, len(late), GROUP):
            batch = Batch()
            for each in late[start : start + GROUP]:
                batch.compares.append(unmodified(each.key, each.revision))
                batch.deletes.add(each.key)
            await self.db.commit(batch)

    async def _take(self, candidates: Sequence[Candidate]) -> bool:
        groups = [candidates[start : start + GROUP] for start in range(0, len(candidates), GROUP)]
        return all(await asyncio.gather(*(self._take_group(group) for group in groups)))

    async def _take_group(self, group: Sequence[Candidate]) -> bool:
        """Take all of these, or none when another was faster with one of them."""
        db, layout, want = self.db, self.db.layout, self.want
        batch = Batch()
        ends = lifecycle.later(self.now, want.lease)
        claims = {}
        for each in group:
            claims[each.task_id] = claim = Claim(
                want.worker_id, self.now, ends, want.types[each.lane.type], above=each.due.fence,
                ordering_key=each.due.ordering_key,
            )  # fmt: skip
            batch.compares.append(unmodified(each.key, each.revision))
            batch.deletes.add(each.key)
            batch.puts[layout.claim(each.task_id)] = msgspec.json.encode(claim)
            batch.reads.append(get(layout.task(each.task_id)))
            if each.due.expires_at is not None:
                batch.deletes.add(layout.deadline(each.due.expires_at, each.rank[2], each.task_id))
            if each.due.ordering_key is not None:
                batch.compares.append(created_at(layout.unsettled(each.due.ordering_key), 0))
                batch.puts[layout.turn(each.due.ordering_key)] = RUNNING
            for status, change in ((TaskStatus.Pending, -1), (TaskStatus.Running, 1)):
                batch.counts[each.lane.queue, each.lane.type, status.value] += change
        entry = enter_lease(db, batch, ends, claims)
        outcome = await db.commit(batch)
        if not outcome.done:
            return False
        db.leases.entered(entry, claims)
        if outcome.answers is None:
            records = [record for record, _ in await read_pairs(db.client, layout, list(claims))]
        else:
            found = [answer.response_range.kvs for answer in outcome.answers[: len(group)]]
            records = [kvs[0] if kvs else None for kvs in found]
        whole = True
        for each, record in zip(group, records, strict=True):
            if record is None:
                await discard(db, each.task_id, each.lane)
            whole &= record is not None and await self._took(each, record, claims[each.task_id], outcome.revision)
        return whole

    async def _took(self, each: Candidate, record: KeyValue, claim: Claim, revision: int) -> bool:
        place, json = unpack(record.value)
        try:
            task = decode(json, each.task_id)
            if record.mod_revision > revision and not _is_held(task, claim.fence_at(revision)):
                # The answer took longer than the lease, and the task has gone on without this claim.
                return False
            if (task.id, lane_of(task), task.ordering_key) != (each.task_id, each.lane, each.due.ordering_key):
                raise DamagedRecord(each.task_id, ANOTHER)
            if record.mod_revision < revision and not can_claim(task, self.want, self.now):
                raise DamagedRecord(each.task_id, ANOTHER)
            if task.status is TaskStatus.Pending:
                task = claimed(task, claim, revision)
        except DamagedRecord as damage:
            await set_aside(self.db, damage, self.now, each.rank[2], each.due.ordering_key, each.lane)
            return False
        self.db.memory.put(task.id, Sight(task.version, place, record.mod_revision, revision))
        self.tasks.append((each.rank, task))
        return True

    async def _next_due(self) -> datetime | None:
        """When the next task comes due that this worker could take."""
        lanes = [lane for lane in self._wanted() if lane.queue in self.queues]
        if not lanes:
            return None
        folders = [self.db.layout.due_folder(lane) for lane in lanes]
        since = moment(self.now) + b"0"
        found = await self.db.read([walk(folder + since, after(folder), 1, keys_only=True) for folder in folders])
        times = [kv.key.split(b"/")[-3] for kvs in found for kv in kvs]
        return from_text(min(times).decode()) if times else None


async def first_due(db: Database, now: datetime) -> tuple[list[FirstDue], bool]:
    """Since when something has been due in each queue and type: the first entry of each lane tells.

    And whether there are ordering keys for which a claim has yet to find out whose turn it is.
    """
    marks, unsettled = db.layout.folder(b"lane"), db.layout.folder(b"unsettled")
    found, waiting = await db.read(
        [walk(marks, after(marks), keys_only=True), walk(unsettled, after(unsettled), 1, keys_only=True)]
    )
    lanes = [read_lane(kv.key) for kv in found]
    folders = [db.layout.due_folder(lane) for lane in lanes]
    until = moment(now) + b"0"
    heads = await db.read([walk(folder, folder + until, 1, keys_only=True) for folder in folders]) if folders else []
    firsts = first_of_each(
        FirstDue(lane.queue, lane.type, from_text(kv.key.split(b"/")[-3].decode()))
        for lane, kvs in zip(lanes, heads, strict=True)
        for kv in kvs
    )
    return firsts, bool(waiting)


def _is_held(task: Task, fence: int) -> bool:
    return task.status is TaskStatus.Running and task.fence == fence


def _candidate(lane: Lane, kv: KeyValue) -> Candidate:
    at, place, end = kv.key.split(b"/")[-3:]
    rank = (-lane.priority, at, place, end)
    return Candidate(rank, lane, plain(end), kv.key, kv.mod_revision, _due_decoder.decode(kv.value))
