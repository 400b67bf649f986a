"""The sharded store: several stores as one queue.

Every record is kept in one shard, by `placing`, and all rules hold there. What concerns all tasks is asked of all
shards and merged; what concerns one goes to its shard alone. A shard that cannot be reached delays its own tasks
and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tenure.errors import IdempotencyConflict, InvalidInput, StoreUnavailable
from tenure.idempotency import Reservation
from tenure.stores.base import (
    PAUSE,
    WORKER,
    Change,
    Claimed,
    Count,
    Due,
    Hold,
    Note,
    Page,
    Piece,
    Query,
    Renewal,
    Store,
    Want,
    first_of_each,
)
from tenure.stores.sharded import moving, seating
from tenure.stores.sharded.claiming import Claims
from tenure.stores.sharded.inserting import Insertion
from tenure.stores.sharded.merging import Listing
from tenure.stores.sharded.placing import Places
from tenure.stores.sharded.shard import Shard
from tenure.stores.sharded.strays import Strays
from tenure.stores.sharded.together import all_of, by_shard, grouped, those_there
from tenure.submission import Submission
from tenure.task import Task, TaskStatus

replace = msgspec.structs.replace


class ShardedStore(Store):
    """Several stores, each with its part of the tasks. Their order counts, and is checked."""

    def __init__(self, shards: Sequence[Shard], strays: Strays | None = None) -> None:
        self.shards = list(shards)
        self.places = Places(len(self.shards))
        self.size_limit = min(shard.size_limit for shard in self.shards)
        self.poll = max(shard.poll for shard in self.shards)
        self.sweep_interval = max(shard.sweep_interval for shard in self.shards)
        self.prune_interval = max(shard.prune_interval for shard in self.shards)
        self._strays = strays or Strays(self.places)
        self._own = self.shards
        """Those that are closed with it: a twin shares shards that need none."""
        self._pruned = 0
        self._claims = Claims(self.shards, random.randrange(len(self.shards)))  # noqa: S311 - spreading workers

    @classmethod
    def of(cls, stores: Sequence[Store], urls: Sequence[str] = ()) -> ShardedStore:
        """Stores that are already there, in their order."""
        names = urls or [type(store).__name__ for store in stores]
        return cls([Shard(number, store, names[number]) for number, store in enumerate(stores)])

    async def open(self) -> None:
        """Look which shards are there, and whether each is the one that the address says."""
        await seating.take_seats(self.shards)

    async def grow(self, before: int) -> None:
        """Open it while it is still a queue of fewer shards, to bring everything where it will be kept."""
        await seating.take_new_seats(self.shards, before)

    def check(self) -> None:
        for shard in self.shards:
            shard.check()

    async def now(self) -> datetime:
        """The time of the first shard that is there. What happens to a task goes by the time of its own shard."""
        for shard in sorted(self.shards, key=lambda shard: shard.health.away is not None):
            try:
                return await shard.now()
            except StoreUnavailable as error:
                away = error
        raise away

    def parts(self) -> Sequence[Store]:
        return self.shards

    def part_of(self, task: Task) -> Shard:
        number = self._strays.get(task.id)
        return self.shards[self.places.of_task(task) if number is None else number]

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        answers = await Insertion(self.shards, self.places, all_or_nothing).run(submissions)
        for answer, number in answers:
            if isinstance(answer, Task):
                self._strays.met(answer, number)
        return [answer for answer, _ in answers]

    async def insert_within(
        self,
        connection: Any,
        submissions: Sequence[Submission],  # noqa: ARG002
        *,
        all_or_nothing: bool = False,  # noqa: ARG002
    ) -> list[Task | IdempotencyConflict]:
        msg = (
            f"connection={connection!r}: a sharded queue keeps a task where its key or id says, which need not be the "
            "database of your transaction. Submit without it, or use a queue in that database alone."
        )
        raise InvalidInput(msg)

    async def claim(self, want: Want) -> Claimed:
        return await self._claims.claim(want, self._strays)

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        return await self._routed(changes, lambda change: change.before, lambda shard, group: shard.swap(group))

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        return await self._routed(tasks, lambda task: task, lambda shard, group: shard.forget(group, now))

    async def _routed(self, items: Sequence[Any], task_of: Any, call: Any) -> list[Any]:
        """Send each item to the shard of its task; the answers in the order of the items."""
        numbered = list(enumerate(items))
        groups = grouped(numbered, lambda pair: self.part_of(task_of(pair[1])).number)
        answers = await by_shard(self.shards, groups, lambda shard, group: call(shard, [item for _, item in group]))
        found = {
            index: answer
            for number, group in groups.items()
            for (index, _), answer in zip(group, answers[number], strict=True)
        }
        return [found[index] for index in range(len(items))]

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        numbered = list(enumerate(renewals))
        groups = grouped(numbered, lambda pair: self._leads_to(pair[1].task_id))
        answers = await by_shard(self.shards, groups, _renew)
        holds = {index: hold for answer in answers.values() for index, hold in answer.items()}
        # An id that the producer chose need not lead to the shard of its ordering key.
        lost = [pair for pair in numbered if holds[pair[0]] is Hold.Lost]
        if lost:
            for answer in (await those_there(self.shards, lambda shard: _renew(shard, lost))).values():
                holds |= {index: hold for index, hold in answer.items() if hold is not Hold.Lost}
        return [holds[index] for index in range(len(renewals))]

    def _leads_to(self, task_id: str) -> int:
        number = self._strays.get(task_id)
        return self.places.of_id(task_id) if number is None else number

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """The id alone leads to the shard; all others are asked for what is not there."""
        found: dict[str, Task] = {}
        away: StoreUnavailable | None = None
        groups = grouped(dict.fromkeys(ids), self._leads_to)
        answers = await asyncio.gather(
            *(self.shards[number].get(group) for number, group in groups.items()), return_exceptions=True
        )
        for (number, group), answer in zip(groups.items(), answers, strict=True):
            if isinstance(answer, StoreUnavailable):
                away = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._meet(found, group, answer, number)
        missing = [task_id for task_id in dict.fromkeys(ids) if task_id not in found]
        if missing:
            away = await self._look_everywhere(missing, found) or away
        if away is not None and any(task_id not in found for task_id in ids):
            raise away
        return [found.get(task_id) for task_id in ids]

    async def _look_everywhere(self, missing: list[str], found: dict[str, Task]) -> StoreUnavailable | None:
        answers = await asyncio.gather(*(shard.get(missing) for shard in self.shards), return_exceptions=True)
        away: StoreUnavailable | None = None
        for number, answer in enumerate(answers):
            if isinstance(answer, StoreUnavailable):
                away = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._meet(found, missing, answer, number)
        return away

    def _meet(self, found: dict[str, Task], ids: Sequence[str], tasks: Sequence[Task | None], number: int) -> None:
        for task_id, task in zip(ids, tasks, strict=True):
            if task is not None and task_id not in found:
                found[task_id] = task
                self._strays.met(task, number)

    async def find(self, query: Query) -> Page:
        async def fetch(shard: Shard, cursor: str | None) -> Page:
            page = await shard.find(replace(query, cursor=cursor))
            for task in page.tasks:
                self._strays.met(task, shard.number)
            return page

        by_end = query.status is not None and query.status.ended
        return await Listing(fetch, by_end=by_end, oldest=query.oldest, limit=query.limit).page(
            self.shards, query.cursor
        )

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        answers = await those_there(self.shards, lambda shard: shard.overdue(now, limit, only))
        tasks = [task for answer in answers.values() for task in answer]
        return sorted(tasks, key=lambda task: (_deadline(task), task.created_at, task.id))[:limit]

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        answers = await those_there(self.shards, lambda shard: shard.count_overdue(now, limit, only, since))
        counts: Counter[str] = Counter()
        for answer in answers.values():
            for type_, count in answer.items():
                counts[type_] += min(count, limit - counts.total())
        return +counts

    async def running_since(self) -> datetime | None:
        answers = await those_there(self.shards, lambda shard: shard.running_since())
        return min((since for since in answers.values() if since is not None), default=None)

    async def count(self) -> list[Count]:
        counts: Counter[tuple[str, str, TaskStatus]] = Counter()
        for answer in (await those_there(self.shards, lambda shard: shard.count())).values():
            for lane in answer:
                counts[lane.queue, lane.type, lane.status] += lane.count
        return [Count(*lane, count=count) for lane, count in sorted(counts.items())]

    async def due(self, now: datetime) -> list[Due]:
        answers = await those_there(self.shards, lambda shard: shard.due(now))
        return first_of_each(due for answer in answers.values() for due in answer)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        """Shard after shard, each time from another one on, until the limit is reached."""
        self._pruned = (self._pruned + 1) % len(self.shards)
        pruned = 0
        for shard in [*self.shards[self._pruned :], *self.shards[: self._pruned]]:
            if pruned < limit and shard.health.can_be_asked:
                with contextlib.suppress(StoreUnavailable):
                    pruned += await shard.prune(ended_before, now, limit - pruned)
        return pruned

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await moving.Dump(self.shards, self.places, limit).piece(cursor)

    async def restore(self, piece: Piece, now: datetime) -> Piece:  # noqa: ARG002 - each shard has its own time
        return await moving.restore(self.shards, self.places, piece)

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        groups = grouped(wanted, lambda record: self.places.of_text(record.identity))
        answers = await by_shard(self.shards, groups, lambda shard, group: shard.reserved(group))
        found = {record.identity: record for answer in answers.values() for record in answer if record is not None}
        return [found.get(record.identity) for record in wanted]

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        """A pause is noted in every shard, because each claims by itself; a sign of life, in those that are there.

        All else is in the first shard, which is the same however many there are.
        """
        if note.kind == PAUSE:
            return all(await all_of(self.shards, lambda shard: shard.put_note(note, if_version=if_version)))
        if note.kind == WORKER:
            answers = await those_there(self.shards, lambda shard: shard.put_note(note, if_version=if_version))
            return all(answers.values())
        return await self.shards[0].put_note(note, if_version=if_version)

    async def notes(self, kind: str) -> list[Note]:
        latest: dict[str, Note] = {}
        for answer in (await those_there(self.shards, lambda shard: shard.notes(kind))).values():
            for note in answer:
                found = latest.get(note.key)
                if found is None or (note.updated_at and found.updated_at and note.updated_at > found.updated_at):
                    latest[note.key] = note
        return [note for _, note in sorted(latest.items())]

    def mark(self) -> object:
        return [shard.mark() for shard in self.shards]

    async def wait(self, mark: object, timeout: float) -> None:
        """Return when any shard has news. One that is away has none."""
        assert isinstance(mark, list)
        waits = {
            asyncio.ensure_future(shard.wait(each, timeout))
            for shard, each in zip(self.shards, mark, strict=True)
            if shard.health.away is None and each is not None
        }
        if not waits:
            await asyncio.sleep(timeout)
            return
        try:
            while waits:
                done, waits = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in done:
                    with contextlib.suppress(StoreUnavailable):
                        wait.result()
                        return
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def about(self) -> dict[str, str]:
        found = {"shards": str(len(self.shards))}
        for shard in self.shards:
            try:
                found |= {f"{shard.name} {name}": text for name, text in (await shard.about()).items()}
            except StoreUnavailable as error:
                found[shard.name] = f"away: {error}"
        return found

    def twin(self) -> Store:
        twins = [shard.twin() for shard in self.shards]
        if all(twin is shard for twin, shard in zip(twins, self.shards, strict=True)):
            return self
        store = ShardedStore(twins, self._strays)
        store._own = [twin for twin, shard in zip(twins, self.shards, strict=True) if twin is not shard]
        return store

    async def close(self) -> None:
        await self._claims.close()
        answers = await asyncio.gather(*(shard.close() for shard in self._own), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer


async def _renew(shard: Shard, group: Sequence[tuple[int, Renewal]]) -> dict[int, Hold]:
    holds = await shard.renew([renewal for _, renewal in group])
    return {index: hold for (index, _), hold in zip(group, holds, strict=True)}


def _deadline(task: Task) -> datetime:
    return task.lease_expires_at or task.expires_at or task.created_at
