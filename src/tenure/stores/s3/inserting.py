"""New tasks: first the records of keys and chosen ids, which decide what is new; then the segments.

A key's record is written in the state `creating` and names the task and its segment, before the
task. A producer that dies between leaves what the next one needs to finish under the same id, in the
same segment, so that both can only create the same task. The record becomes `ready` when a repeat
finds the task there; that of a slot, which must never be finished twice, becomes so at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tenure import idempotency
from tenure.errors import IdempotencyConflict, PartlySubmitted, StoreUnavailable
from tenure.idempotency import Kind, Verdict
from tenure.stores.base import remembered
from tenure.stores.s3.ids import Ids
from tenure.stores.s3.names import tail_of
from tenure.stores.s3.places import Places
from tenure.stores.s3.placing import Placing
from tenure.stores.s3.reservations import HeldReservation, Reservations
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import in_parallel
from tenure.stores.s3.writer import Gone, Writer
from tenure.submission import Submission
from tenure.task import Task

replace = msgspec.structs.replace
Answer = Task | IdempotencyConflict


class Inserting:
    """Everything that an insert touches."""

    def __init__(self, writer: Writer, places: Places, ids: Ids, reservations: Reservations, placing: Placing) -> None:
        self.writer, self.places, self.ids, self.reservations, self.placing = writer, places, ids, reservations, placing

    async def insert(self, submissions: Sequence[Submission], now: datetime, *, all_or_nothing: bool) -> list[Answer]:
        return await _Batch(self, submissions, now).run(all_or_nothing=all_or_nothing)


class _Batch:
    """One insert."""

    def __init__(self, parts: Inserting, submissions: Sequence[Submission], now: datetime) -> None:
        self.parts, self.submissions, self.now = parts, submissions, now
        self.segments = parts.placing.names(submissions, now)
        self.answers: list[Answer | None] = [None] * len(submissions)
        self.new: dict[str, tuple[Task, str]] = {}
        self.records: dict[str, HeldReservation] = {}
        self.fresh: dict[str, int] = {}
        self.finished: list[HeldReservation] = []
        self.taken: list[tuple[HeldReservation, HeldReservation]] = []
        self.named: list[str] = []

    async def run(self, *, all_or_nothing: bool) -> list[Answer]:
        """Decide for each in order, then write all new tasks together."""
        await self._reserve()
        for number, submission in enumerate(self.submissions):
            try:
                self.answers[number] = await self._decide(number, submission)
            except IdempotencyConflict as conflict:
                if all_or_nothing:
                    await self._undo()
                    raise
                self.answers[number] = conflict
        stored = await self._write()
        await in_parallel(self._make_ready, self.finished)
        told: set[str] = set()
        return [self._told(answer, stored, told) for answer in self.answers if answer is not None]

    def _told(self, answer: Answer, stored: dict[str, Task], told: set[str]) -> Answer:
        """The task as it stands there. Only the first of a batch is told that it is new."""
        if not isinstance(answer, Task) or not answer.created:
            return answer
        answer = stored[answer.id]
        if answer.id in told:
            return replace(answer, created=False)
        told.add(answer.id)
        return answer

    async def _undo(self) -> None:
        """Nothing but records has been written yet: take those back."""
        await in_parallel(self.parts.reservations.delete, [self.records[identity] for identity in self.fresh])
        for held, before in self.taken:
            await self.parts.reservations.replace(held, before.reservation, before.segment)
        for held in await in_parallel(self.parts.ids.read, self.named):
            if held is not None:
                await self.parts.ids.forget(held)

    async def _reserve(self) -> None:
        """Write the record of every key that has none: the first submit of a key in the batch is the one it is for."""
        firsts: dict[str, int] = {}
        for number, submission in enumerate(self.submissions):
            if submission.reservation is not None:
                firsts.setdefault(submission.reservation.identity, number)

        async def reserve(number: int) -> None:
            wanted = self.submissions[number].reservation
            assert wanted is not None
            held = await self.parts.reservations.create(replace(wanted, state="creating"), self.segments[number])
            if held is not None:
                self.records[wanted.identity] = held
                self.fresh[wanted.identity] = number

        await in_parallel(reserve, list(firsts.values()))

    async def _decide(self, number: int, submission: Submission) -> Task:
        """The task that stands there, or the new one."""
        task, segment = submission.task, self.segments[number]
        wanted = submission.reservation
        if wanted is not None and self.fresh.get(wanted.identity) == number:
            if wanted.kind is Kind.Slot:
                self.finished.append(self.records[wanted.identity])
        elif wanted is not None:
            while True:
                held = self.records.get(wanted.identity) or await self.parts.reservations.read(wanted)
                if held is None:
                    held = await self.parts.reservations.create(replace(wanted, state="creating"), segment)
                    if held is None:
                        continue
                    self.records[wanted.identity] = held
                    break
                found = held.reservation
                known = await self._known(found.task_id)
                verdict = idempotency.judge(found, wanted, self.now, task_known=known is not None)
                if verdict is Verdict.Existing and known is not None:
                    if found.state == "creating" and found.task_id not in self.new:
                        self.finished.append(held)
                    return replace(known, created=False) if found.task_id not in self.new else known
                if verdict is Verdict.Finish:
                    task = replace(task, id=found.task_id)
                    segment = held.segment or segment
                    self.finished.append(held)
                    self.records[wanted.identity] = held
                    break
                taken = await self.parts.reservations.replace(held, replace(wanted, state="creating"), segment)
                self.records.pop(wanted.identity, None)
                if taken is not None:
                    self.records[wanted.identity] = taken
                    self.taken.append((taken, held))
                    if wanted.kind is Kind.Slot:
                        self.finished.append(taken)
                    break
        return await self._absent_or_there(task, segment, chosen=submission.chosen_id)

    async def _absent_or_there(self, task: Task, segment: str, *, chosen: bool) -> Task:
        if task.id in self.new:
            return self.new[task.id][0]
        if chosen or tail_of(task.id) is None:
            while not await self.parts.ids.reserve(task.id, segment):
                held = await self.parts.ids.read(task.id)
                if held is None:
                    continue
                if (stone := held.stone) is not None:
                    if remembered(stone, self.now) is not None:
                        return replace(stone, created=False)
                    if not await self.parts.ids.point(held, segment):
                        continue
                elif (known := await self._known(task.id)) is not None:
                    return replace(known, created=False)
                else:
                    segment = held.record.segment or segment
                break
            else:
                self.named.append(task.id)
                if tail_of(task.id) is not None and (known := await self._known(task.id)) is not None:
                    return replace(known, created=False)
        self.new[task.id] = task, segment
        return task

    async def _known(self, task_id: str) -> Task | None:
        if task_id in self.new:
            return self.new[task_id][0]
        found = await self.parts.places.find_readable([task_id])
        if task_id in found:
            return found[task_id][1].task
        return await self.parts.ids.stone(task_id, self.now)

    async def _write(self) -> dict[str, Task]:
        """Write the new tasks, a request for each segment; the tasks as they stand there."""
        by_segment: dict[str, dict[str, Entry]] = {}
        numbered = self.parts.placing.entries([task for task, _ in self.new.values()], self.now)
        for entry, (task, segment) in zip(numbered, self.new.values(), strict=True):
            by_segment.setdefault(segment, {})[task.id] = entry
        stored: dict[str, Task] = {}
        trouble: list[StoreUnavailable] = []

        async def write(pair: tuple[str, dict[str, Entry]]) -> None:
            try:
                stored.update(await self._write_segment(pair))
            except StoreUnavailable as error:
                trouble.append(error)

        await in_parallel(write, list(by_segment.items()))
        if trouble and stored:
            created = [task for task in stored.values() if task.created]
            raise PartlySubmitted(created, len(self.submissions), str(trouble[0])) from trouble[0]
        if trouble:
            raise trouble[0]
        return stored

    async def _write_segment(self, pair: tuple[str, dict[str, Entry]]) -> dict[str, Task]:
        name, entries = pair

        def add_absent(segment: Segment, doubtful: bool) -> tuple[Segment, dict[str, Task]]:
            there = {
                task_id: entry.task if doubtful and entry == entries[task_id] else replace(entry.task, created=False)
                for task_id, entry in segment.entries.items()
                if task_id in entries
            }
            absent = {task_id: entry for task_id, entry in entries.items() if task_id not in there}
            answer = {task_id: entry.task for task_id, entry in absent.items()} | there
            if not absent:
                return segment, answer
            return replace(segment, entries={**segment.entries, **absent}), answer

        exists = self.parts.placing.is_known(name)
        while True:
            if not exists and await self.parts.writer.create(Segment(name, "", entries)) is not None:
                return {task_id: entry.task for task_id, entry in entries.items()}
            try:
                return await self.parts.writer.change(name, add_absent)
            except Gone:
                exists = False

    async def _make_ready(self, held: HeldReservation) -> None:
        """Say that the task is there. Should another have changed the record, it knows better."""
        await self.parts.reservations.replace(held, replace(held.reservation, state="ready"), held.segment)
