"""A claim: list the front of a shard, find what may run, and write it into its segments.

The names promise an order, so segments are read only as far as the order of the wanted tasks needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import Claimed, Want, paused_queues
from tenure.stores.s3.bucket import Listed
from tenure.stores.s3.names import PAUSES, is_lane, milliseconds, promised
from tenure.stores.s3.notes import Pauses
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import Front, Shelves, in_parallel
from tenure.stores.s3.writer import Gone, Step, Writer
from tenure.task import Task, TaskStatus
from tenure.times import from_micros, to_micros

FEW = 64
"""So many unknown segments are read at once, whether they are needed or not: exact answers in small queues."""
CROWD = 31
"""Among how many times as many tasks as it wants a worker chooses when there are many others."""
RECENT = 0.5
"""Seconds for which a listing is used again while it shows more tasks than are wanted."""
GATHER = 0.05
"""Seconds from one listing to the next while tasks keep coming, so that each finds several of them.

This is for servers with short ways: elsewhere a claim takes longer than that anyway.
"""
Rank = tuple[int, int, int]


class Candidate(NamedTuple):
    """A task that may run now, and where it stands."""

    rank: Rank
    name: str
    task_id: str


class _Recent(NamedTuple):
    """A listing, when it was made, and how many runnable tasks the last claim left of it."""

    front: Front
    at: float
    spare: int


class Late(NamedTuple):
    """A task to which time has done something: since when that was due, and what it is now."""

    since: datetime
    order: int
    task: Task


class Taken(NamedTuple):
    """What a write to one segment gave."""

    claimed: list[Entry]
    overdue: list[Late]


class Claims:
    """Claims from all shards, each time from another one first."""

    def __init__(self, shelves: Shelves, writer: Writer, pauses: Pauses, clock: Callable[[], datetime]) -> None:
        self._shelves, self._writer, self._pauses, self._clock = shelves, writer, pauses, clock
        self._turn = itertools.count()
        self._recent: dict[int, _Recent] = {}
        self._not_before: dict[int, float] = {}
        self._at_once = asyncio.Event()
        self._conflicts = self._crowd = 0
        self.saw: Callable[[list[Segment]], object] = list

    def look_again(self) -> None:
        """This process has written something that a listing would show."""
        self._recent.clear()

    def look_at_once(self) -> None:
        """This process has let a task go that waited for another."""
        self._not_before.clear()
        self._at_once.set()

    async def claim(self, want: Want) -> Claimed:
        """Shard by shard, until there is enough."""
        shards = self._shelves.shards
        first = next(self._turn)
        claimed: list[Entry] = []
        overdue: list[Late] = []
        dues: list[datetime] = []
        for number in range(len(shards)):
            shard = shards[(first + number) % len(shards)]
            taken, due = await self._claim_in(shard, want, want.count - len(claimed))
            claimed += taken.claimed
            overdue += taken.overdue
            dues += [due] if due is not None else []
            if claimed and len(claimed) >= want.count:
                break
        claimed.sort(key=_rank)
        # Two producers may have given their tasks one number.
        overdue.sort(key=lambda late: (late.since, late.order, late.task.id))
        return Claimed([entry.task for entry in claimed], [late.task for late in overdue], min(dues, default=None))

    async def _claim_in(self, shard: int, want: Want, count: int) -> tuple[Taken, datetime | None]:
        front = await self._front(shard, count)
        # What came while the listing was on its way is due, too.
        now, listed_at = self._clock(), time.monotonic()
        queues = set(want.queues) - paused_queues(await self._pauses.seen_in(front.listed, shard), now)
        total = Taken([], [])
        dues: list[datetime] = []
        while True:
            search = _Search(self._shelves, front, want, queues, now)
            await search.look(count - len(total.claimed))
            self.saw(search.segments)
            dues += search.dues()
            taken = await self._take(search, want, queues, count - len(total.claimed))
            total.claimed.extend(taken.claimed)
            total.overdue.extend(taken.overdue)
            if shard in self._recent:
                self._recent[shard] = self._recent[shard]._replace(spare=len(search.candidates()) - len(taken.claimed))
            if front.last is None or len(total.claimed) >= count:
                if 1 < len(total.claimed) < count:
                    self._not_before[shard] = listed_at + GATHER
                return total, min(dues, default=None)
            front = await self._shelves.next_page(shard, front)
            self._recent.pop(shard, None)

    def recent(self, shard: int, age: float) -> Front | None:
        """The last listing, if it is no older than this many seconds."""
        recent = self._recent.get(shard)
        return recent.front if recent is not None and time.monotonic() - recent.at < age else None

    async def _front(self, shard: int, count: int) -> Front:
        """A listing; a recent one will do as long as it shows more tasks than are wanted."""
        recent = self._recent.get(shard)
        if recent is not None and recent.spare >= count > 0 and time.monotonic() - recent.at < RECENT:
            mirror = self._shelves.mirror
            return recent.front._replace(
                listed=[
                    each._replace(etag=known.etag) if (known := mirror.get(each.name)) is not None else each
                    for each in recent.front.listed
                ]
            )
        await self._gather(shard)
        front = await self._shelves.front(shard)
        self._recent[shard] = _Recent(front, time.monotonic(), 0)
        return front

    async def _gather(self, shard: int) -> None:
        """Wait until it is worth a listing."""
        pause = self._not_before.pop(shard, 0.0) - time.monotonic()
        if pause > 0:
            self._at_once.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._at_once.wait()

    def _choose(self, candidates: list[Candidate], count: int) -> set[Candidate]:
        """The first in order. While others keep being faster, some of the first, at random, so that not all want the same."""
        conflicts, self._conflicts = self._writer.conflicts - self._conflicts, self._writer.conflicts
        self._crowd = min(2 * self._crowd + 1, CROWD) if conflicts else self._crowd // 2
        first = candidates[: count * (1 + self._crowd)]
        return set(first if len(first) <= count else random.sample(first, count))

    async def _take(self, search: _Search, want: Want, queues: set[str], count: int) -> Taken:
        """Write claims into their segments; where others were faster, go on to the next candidates."""
        total = Taken([], [])
        late = search.late
        candidates = search.candidates()
        while True:
            chosen = self._choose(candidates, max(count - len(total.claimed), 0))
            candidates = [candidate for candidate in candidates if candidate not in chosen]
            wanted: dict[str, list[str]] = {name: [] for name in late}
            late = []
            for candidate in chosen:
                wanted.setdefault(candidate.name, []).append(candidate.task_id)
            if not wanted:
                return total

            async def write(pair: tuple[str, list[str]]) -> Taken:
                try:
                    return await self._writer.change(pair[0], _step(pair[1], want, queues, self._clock))
                except (Gone, DamagedRecord):
                    return Taken([], [])

            for taken in await in_parallel(write, list(wanted.items())):
                total.claimed.extend(taken.claimed)
                total.overdue.extend(taken.overdue)


class _Search:
    """Looks through the segments that a front shows."""

    def __init__(self, shelves: Shelves, front: Front, want: Want, queues: set[str], now: datetime) -> None:
        self._shelves, self._want, self._queues, self._now = shelves, want, queues, now
        listed = [each for each in front.listed if not each.name.endswith(PAUSES)]
        now_ms = milliseconds(now)
        lanes = [each for each in listed if is_lane(each.name)]
        timed = sorted((promise, each) for each in listed if (promise := promised(each.name)) is not None)
        self._due = [each for promise, each in timed if promise[1] <= now_ms]
        self._later = [each for promise, each in timed if promise[1] > now_ms]
        self._lanes = lanes
        self.segments: list[Segment] = []
        self.late: list[str] = []
        """Segments in which time has done something."""
        self._candidates: list[Candidate] = []
        self._dues: list[datetime] = []

    async def look(self, count: int) -> None:
        """Read until the first `count` tasks in order are known."""
        shelves = self._shelves
        everything = [*self._lanes, *self._due, *self._later]
        if sum(not shelves.mirror.has(each) for each in everything) <= FEW:
            self._see(await shelves.read(everything))
            return
        self._see(await shelves.read(self._lanes))
        rest = self._due
        while rest:
            known = list(itertools.takewhile(shelves.mirror.has, rest))
            unknown = rest[len(known) : len(known) + max(count, FEW // 4)]
            self._see(await shelves.read([*known, *unknown]))
            rest = rest[len(known) + len(unknown) :]
            if rest and self._certain(rest[0]) >= count:
                break
        # What is known of the others costs nothing.
        self._see(await shelves.read([each for each in rest if shelves.mirror.has(each)]))

    def _see(self, segments: list[Segment]) -> None:
        for segment in segments:
            self.segments.append(segment)
            if segment.over:
                continue
            current, late = settled(segment, self._now)
            if late:
                self.late.append(segment.name)
            for entry in runnable(current, self._want, self._queues, self._now):
                if entry.task.available_at <= self._now:
                    self._candidates.append(Candidate(_rank(entry), segment.name, entry.task.id))
                else:
                    self._dues.append(entry.task.available_at)

    def _certain(self, unread: Listed) -> int:
        """How many candidates come before everything that was not read."""
        bound = promised(unread.name)
        assert bound is not None
        return sum((each.rank[0], each.rank[1] // 1000) <= bound for each in self._candidates)

    def candidates(self) -> list[Candidate]:
        """What may run now, in order."""
        return sorted(self._candidates)

    def dues(self) -> list[datetime]:
        """When tasks that could run later are due."""
        # Of what was not read, the name promises a time that is early enough.
        names = {segment.name for segment in self.segments}
        unread = [promise for each in self._later if each.name not in names and (promise := promised(each.name))]
        return [*self._dues, from_micros(min(promise[1] for promise in unread) * 1000)] if unread else self._dues


def settled(segment: Segment, now: datetime) -> tuple[Segment, list[Late]]:
    """The segment after what time alone does to its tasks, and those tasks."""
    late = [
        Late(entry.task.lease_expires_at or entry.task.expires_at or now, entry.order, after)
        for entry in segment.tasks()
        if (after := lifecycle.overdue(entry.task, now)) is not None
    ]
    return (segment.with_tasks(each.task for each in late), late) if late else (segment, [])


def runnable(segment: Segment, want: Want, queues: set[str], now: datetime) -> Iterator[Entry]:
    """Pending tasks of the wanted queues and types whose turn it is, due or not."""
    entries: Iterable[Entry] = segment.tasks()
    if is_lane(segment.name):
        entries = _heads(segment)
    for entry in entries:
        task = entry.task
        wanted = task.queue in queues and task.type in want.types
        late = task.expires_at is not None and now >= task.expires_at
        if wanted and task.status is TaskStatus.Pending and not late:
            yield entry


def _heads(lane: Segment) -> Iterator[Entry]:
    """The task whose turn it is: a running one, else the one submitted first."""
    waiting = sorted((entry for entry in lane.tasks() if not entry.task.status.ended), key=lambda entry: entry.order)
    running = [entry for entry in waiting if entry.task.status is TaskStatus.Running]
    yield from (running or waiting)[:1]


def _step(ids: list[str], want: Want, queues: set[str], clock: Callable[[], datetime]) -> Step[Taken]:
    def step(segment: Segment, _: bool) -> tuple[Segment, Taken]:
        # The search, and others who were faster, may have taken longer than a lease: it counts from the write.
        now = clock()
        current, late = settled(segment, now)
        wanted = set(ids)
        claimed = [
            Entry(entry.order, _claimed(entry.task, want, now))
            for entry in runnable(current, want, queues, now)
            if entry.task.id in wanted and entry.task.available_at <= now
        ]
        if claimed:
            current = current.with_tasks(entry.task for entry in claimed)
        return current, Taken(claimed, late)

    return step


def _claimed(task: Task, want: Want, now: datetime) -> Task:
    return lifecycle.claim(task, worker_id=want.worker_id, now=now, lease=want.lease, policy_max=want.types[task.type])


def _rank(entry: Entry) -> Rank:
    return -entry.task.priority, to_micros(entry.task.available_at), entry.order
