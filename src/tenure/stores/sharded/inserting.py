"""Submitting to several shards: one task per key and per chosen id, whichever shard is asked.

Nearly every submit concerns one shard, because a new id shares the bucket of its key or ordering key, and is one
insert there. Where a key, a chosen id and an ordering key lead to different shards, they are settled in this order:

1. the shard of the key reserves it: state `creating`, with the task's id;
2. the shard of the id is told that the task is kept where its ordering key leads;
3. the shard of the key is told that the task is kept where its id leads;
4. the task is inserted where it is kept.

Each step puts in what is absent and is told what stands there, so whoever comes second goes on with what the first
began, wherever that stopped.

What a shard is told of others it keeps for as long as ids are remembered, and a task can outlive that. So an id that
was not made for this very submit is looked for in the other shards before all this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from tenure import idempotency
from tenure.errors import IdempotencyConflict, PartlySubmitted, StoreError, StoreUnavailable
from tenure.idempotency import Reservation, Verdict
from tenure.stores.base import Piece
from tenure.stores.sharded import pointers
from tenure.stores.sharded.placing import Places
from tenure.stores.sharded.shard import Shard
from tenure.stores.sharded.together import by_shard, grouped, those_there
from tenure.submission import Submission
from tenure.task import Task
from tenure.times import FOREVER

replace = msgspec.structs.replace
Answer = Task | IdempotencyConflict

HOPS = 4
"""A key leads to an id, and an id to an ordering key: nobody is sent on more often."""


class Entry:
    """One submission on its way."""

    __slots__ = ("answer", "found", "kept_at", "reservation", "reserved", "task", "wanted")

    def __init__(self, submission: Submission) -> None:
        self.wanted = submission
        self.task = submission.task
        self.reservation = submission.reservation
        """The record that is inserted together with the task."""
        self.reserved: Reservation | None = None
        """The record that was written elsewhere."""
        self.answer: Answer | None = None
        self.kept_at = 0
        self.found = False
        """Whether its task was seen where it is kept: nobody need be told where that is."""


class Insertion:
    """One batch of submissions."""

    def __init__(self, shards: Sequence[Shard], places: Places, all_or_nothing: bool, hops: int = HOPS) -> None:
        self.shards, self.places = shards, places
        self.all_or_nothing = all_or_nothing
        self.hops = hops

    async def run(self, submissions: Sequence[Submission]) -> list[tuple[Answer, int]]:
        """What stands for each submission, in order, and in which shard."""
        entries = [Entry(submission) for submission in submissions]
        for entry in entries:
            self._place(entry)
        await self._look_elsewhere([entry for entry in entries if entry.wanted.chosen_id])
        crossing = [entry for entry in entries if self._crosses(entry)]
        if self.all_or_nothing and len({entry.kept_at for entry in entries}) + bool(crossing) > 1:
            await self._refuse_conflicts(entries)
        for batch in _without_repeats(entries) if crossing else [entries]:
            await self._settle([entry for entry in batch if self._crosses(entry)])
            await self._insert(batch, entries)
            await self._follow(batch)
        return [(entry.answer, entry.kept_at) for entry in entries if entry.answer is not None]

    async def _look_elsewhere(self, entries: list[Entry]) -> None:
        """Send those that are already kept in another shard there. One that is away is not waited for."""
        if not entries:
            return

        async def look(shard: Shard) -> list[tuple[Entry, Task]]:
            asked = [entry for entry in entries if entry.kept_at != shard.number]
            tasks = await shard.get([entry.task.id for entry in asked]) if asked else []
            return [(entry, task) for entry, task in zip(asked, tasks, strict=True) if task is not None]

        with contextlib.suppress(StoreUnavailable):
            for number, found in (await those_there(self.shards, look)).items():
                for entry, task in found:
                    entry.task = replace(entry.task, ordering_key=task.ordering_key)
                    entry.kept_at, entry.found = number, True
                    self._bound(entry, task)

    def _bound(self, entry: Entry, task: Task) -> None:
        """Where one shard has the key's record and answers for the id, it forgets both together: never the id first."""
        record, until = entry.reservation, task.remember_until
        if record is None or until is None or self.places.of_id(task.id) == entry.kept_at:
            return
        if self.places.of_id(task.id) == self.places.of_text(record.identity):
            entry.reservation = replace(record, expires_at=min(record.expires_at or FOREVER, until))

    async def _settle(self, crossing: list[Entry]) -> None:
        """Let every shard that may be asked for one of these know where it is kept."""
        if crossing:
            await self._reserve(crossing)
            await self._look_elsewhere([entry for entry in crossing if entry.task.id != entry.wanted.task.id])
            await self._point_from_ids(crossing)
            await self._point_from_keys(crossing)

    def _place(self, entry: Entry) -> None:
        entry.kept_at = self.places.of_task(entry.task)

    def _crosses(self, entry: Entry) -> bool:
        if entry.reservation is not None and self.places.of_text(entry.reservation.identity) != entry.kept_at:
            return True
        return entry.task.ordering_key is not None and self.places.of_id(entry.task.id) != entry.kept_at

    async def _refuse_conflicts(self, entries: list[Entry]) -> None:
        """Nothing is undone across shards, so a batch that is all or nothing looks at all its keys first."""
        keyed = [entry.reservation for entry in entries if entry.reservation is not None]
        groups = grouped(keyed, lambda wanted: self.places.of_text(wanted.identity))
        answers = await by_shard(self.shards, groups, lambda shard, group: shard.reserved(group))
        times = {number: await self.shards[number].now() for number in groups}
        records = {
            record.identity: record
            for number, found in answers.items()
            for record in found
            if record is not None and not record.is_stale_at(times[number])
        }
        for wanted in keyed:
            record = records.setdefault(wanted.identity, wanted)
            idempotency.judge(record, wanted, wanted.created_at, task_known=True)

    async def _reserve(self, crossing: list[Entry]) -> None:
        keyed = [entry for entry in crossing if entry.reservation is not None]
        groups = grouped(keyed, lambda entry: self.places.of_text(_identity(entry)))
        await by_shard(self.shards, groups, self._reserve_in)

    async def _reserve_in(self, shard: Shard, group: list[Entry]) -> None:
        records: dict[str, Reservation] = {}
        for entry in group:
            if entry.reservation is not None:
                records.setdefault(_identity(entry), replace(entry.reservation, state="creating"))
        now = await shard.now()
        told = await shard.restore(Piece(reservations=list(records.values())), now)
        records |= {record.identity: record for record in told.reservations}
        for entry in group:
            wanted, entry.reservation = entry.reservation, None
            if wanted is None:
                continue
            found = records[wanted.identity]
            try:
                verdict = idempotency.judge(found, wanted, now, task_known=True)
            except IdempotencyConflict as conflict:
                if self.all_or_nothing:
                    raise
                entry.answer = conflict
                continue
            if verdict is Verdict.TakeOver:
                # The record was outdated when it was made: it ties nobody.
                continue
            entry.reserved = found
            if entry.task.id != found.task_id:
                entry.task, entry.found = replace(entry.wanted.task, id=found.task_id), False
                self._place(entry)

    async def _point_from_ids(self, crossing: list[Entry]) -> None:
        groups = grouped(
            [
                entry
                for entry in crossing
                if entry.answer is None
                and not entry.found
                and entry.task.ordering_key is not None
                and self.places.of_id(entry.task.id) != entry.kept_at
            ],
            lambda entry: self.places.of_id(entry.task.id),
        )

        async def point(shard: Shard, group: list[Entry]) -> None:
            told = await _put_pointers(shard, [pointers.from_id(entry.task) for entry in group])
            for entry in group:
                found = told[entry.task.id]
                if pointers.is_pointer(found):
                    entry.task = replace(entry.task, ordering_key=found.ordering_key)
                    self._place(entry)
                else:
                    entry.answer, entry.kept_at = replace(found, created=False), shard.number

        await by_shard(self.shards, groups, point)

    async def _point_from_keys(self, crossing: list[Entry]) -> None:
        apart = [entry for entry in crossing if entry.reserved is not None]
        groups = grouped(apart, lambda entry: self.places.of_text(entry.reserved.identity if entry.reserved else ""))

        async def point(shard: Shard, group: list[Entry]) -> None:
            away = [entry for entry in group if entry.kept_at != shard.number]
            told = await _put_pointers(shard, [self._pointer_from_key(entry) for entry in away])
            for entry in away:
                found = told[entry.task.id]
                if not pointers.is_pointer(found):
                    entry.answer, entry.kept_at = replace(found, created=False), shard.number

        await by_shard(self.shards, groups, point)

    def _pointer_from_key(self, entry: Entry) -> Task:
        assert entry.reserved is not None
        key_shard = self.places.of_text(entry.reserved.identity)
        leads_here = self.places.of_id(entry.task.id) == key_shard
        return pointers.from_key(entry.reserved, entry.task.ordering_key if leads_here else None)

    async def _insert(self, batch: list[Entry], entries: list[Entry]) -> None:
        groups = grouped([entry for entry in batch if entry.answer is None], lambda entry: entry.kept_at)
        numbers = list(groups)
        answers = await asyncio.gather(
            *(
                self.shards[number].insert(
                    [_submission(entry) for entry in groups[number]], all_or_nothing=self.all_or_nothing
                )
                for number in numbers
            ),
            return_exceptions=True,
        )
        failed = []
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, BaseException):
                failed.append(answer)
                continue
            for entry, stands in zip(groups[number], answer, strict=True):
                entry.answer = stands
        if failed:
            self._fail(entries, failed[0])

    def _fail(self, entries: list[Entry], error: BaseException) -> None:
        """Some shards have refused; say exactly what the others have stored."""
        created = [entry.answer for entry in entries if isinstance(entry.answer, Task) and entry.answer.created]
        if self.all_or_nothing and created:
            if isinstance(error, StoreUnavailable):
                raise PartlySubmitted(created, len(entries), str(error)) from error
            error.add_note(f"Of this batch, these were created before that: {', '.join(task.id for task in created)}")
        raise error

    async def _follow(self, entries: list[Entry]) -> None:
        """A shard may answer with a pointer: the task is kept elsewhere, or its producer died before it was."""
        led = [entry for entry in entries if isinstance(entry.answer, Task) and pointers.is_pointer(entry.answer)]
        if not led:
            return
        if self.hops == 0:
            msg = f"Shards point to each other for task {led[0].task.id}. Copy the queue to new stores: tenure copy"
            raise StoreError(msg)
        onward = Insertion(self.shards, self.places, self.all_or_nothing, self.hops - 1)
        found = await onward.run([_led_on(entry) for entry in led])
        for entry, (answer, kept_at) in zip(led, found, strict=True):
            entry.answer, entry.kept_at = answer, kept_at


def _without_repeats(entries: list[Entry]) -> list[list[Entry]]:
    """The entries in order, cut where a key or an id comes again: the second has to find the first."""
    batches: list[list[Entry]] = [[]]
    met: set[str] = set()
    for entry in entries:
        names = {entry.task.id, _identity(entry)} - {""}
        if names & met:
            batches.append([])
            met = set()
        met |= names
        batches[-1].append(entry)
    return batches


def _identity(entry: Entry) -> str:
    return entry.reservation.identity if entry.reservation is not None else ""


def _submission(entry: Entry) -> Submission:
    if entry.task is entry.wanted.task and entry.reservation is entry.wanted.reservation:
        return entry.wanted
    return Submission(entry.task, entry.reservation, chosen_id=True)


def _led_on(entry: Entry) -> Submission:
    pointer = entry.answer
    assert isinstance(pointer, Task)
    ordering_key = entry.task.ordering_key if pointer.ordering_key is None else pointer.ordering_key
    return Submission(replace(entry.task, id=pointer.id, ordering_key=ordering_key), chosen_id=True)


async def _put_pointers(shard: Shard, wanted: list[Task]) -> dict[str, Task]:
    """Put in what is absent; what stands there now, by id."""
    stones = {pointer.id: pointer for pointer in reversed(wanted)}
    if not stones:
        return {}
    told = await shard.restore(Piece(stones=list(stones.values())), await shard.now())
    return stones | {found.id: found for found in told.stones}
