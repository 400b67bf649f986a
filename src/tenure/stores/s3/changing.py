"""Replacing versions, renewing leases, forgetting: each task in the object where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from tenure import lifecycle
from tenure.errors import DamagedRecord
from tenure.stores.base import Change, Hold, Renewal, remembered
from tenure.stores.s3.ids import Ids
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.names import is_pack, tail_of
from tenure.stores.s3.packing import Packing
from tenure.stores.s3.places import Places
from tenure.stores.s3.segments import Entry, Segment
from tenure.stores.s3.shelves import in_parallel
from tenure.stores.s3.writer import Gone, Refused, Writer
from tenure.task import Task, TaskStatus

replace = msgspec.structs.replace
T = TypeVar("T")
Item = TypeVar("Item")


class _Elsewhere:
    """The task is not in this object."""


_ELSEWHERE = _Elsewhere()
Rule = Callable[[Item, Task, bool], tuple[Task | None, Any]]
"""(item, stored task, in doubt) -> the next task (the same one: nothing to write; None: gone) and the answer."""


class Changing:
    """Changes of tasks, grouped by the object that each is in."""

    def __init__(self, mirror: Mirror, writer: Writer, places: Places, ids: Ids, packing: Packing) -> None:
        self._mirror, self._writer, self._places, self._ids, self._packing = mirror, writer, places, ids, packing
        self.over: Callable[[list[int]], None] = _nobody

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        return await self._each(changes, lambda change: change.after.id, _swap, absent=False)

    async def renew(self, renewals: Sequence[Renewal], now: datetime) -> list[Hold]:
        def rule(renewal: Renewal, task: Task, _: bool) -> tuple[Task | None, Hold]:
            if task.status is not TaskStatus.Running or task.fence != renewal.fence:
                return task, Hold.Lost
            until = lifecycle.later(now, renewal.lease)
            renewed = replace(lifecycle.renew(task, renewal.fence, until), progress=renewal.progress or task.progress)
            return renewed, Hold.CancelRequested if task.cancel_requested else Hold.Held

        return await self._each(renewals, lambda renewal: renewal.task_id, rule, absent=Hold.Lost)

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        """Stones first, so that nothing that must be remembered is ever unknown."""
        found = await self._places.find(task.id for task in tasks)
        going = [task for task in tasks if task.id in found and _same(task, found[task.id][1].task)]
        await in_parallel(lambda task: self._leave_stone(task, now), going)

        def rule(task: Task, stored: Task, _: bool) -> tuple[Task | None, bool]:
            return (None, True) if _same(task, stored) else (stored, False)

        return await self._each(tasks, lambda task: task.id, rule, absent=False)

    async def _leave_stone(self, task: Task, now: datetime) -> None:
        if (stone := remembered(task, now)) is not None:
            await self._ids.bury(stone)
        elif tail_of(task.id) is None:
            await self._ids.drop(task.id)

    async def _each(self, items: Sequence[Item], id_of: Callable[[Item], str], rule: Rule[Item], absent: T) -> list[T]:
        """Apply the rule to each item's task where it stands; look again for those that have moved."""
        answers: list[Any] = [_ELSEWHERE] * len(items)
        looked = False
        while pending := [number for number, answer in enumerate(answers) if answer is _ELSEWHERE]:
            groups: dict[str, list[int]] = {}
            places = {id_of(items[number]): self._mirror.place(id_of(items[number])) for number in pending}
            unknown = [task_id for task_id, place in places.items() if place is None or looked]
            if unknown:
                found = await self._places.find(unknown)
                places |= {task_id: found[task_id][0] if task_id in found else None for task_id in unknown}
            for number in pending:
                place = places[id_of(items[number])]
                if place is None:
                    answers[number] = absent
                else:
                    groups.setdefault(place, []).append(number)

            async def write(pair: tuple[str, list[int]]) -> None:
                name, numbers = pair
                try:
                    given = await self._writer.change(name, _Step(items, numbers, id_of, rule))
                except Gone:
                    return
                except DamagedRecord:
                    given = [absent] * len(numbers)
                for number, answer in zip(numbers, given, strict=True):
                    answers[number] = answer

            await in_parallel(write, list(groups.items()))
            if shards := self._packing.notice(self._mirror.get(name) for name in groups if not is_pack(name)):
                self.over(shards)
            looked = True
        return answers


class _Step(Generic[Item]):
    """One object's part of a batch."""

    def __init__(
        self, items: Sequence[Item], numbers: list[int], id_of: Callable[[Item], str], rule: Rule[Item]
    ) -> None:
        self._items, self._numbers, self._id_of, self._rule = items, numbers, id_of, rule

    def __call__(self, segment: Segment, doubtful: bool) -> tuple[Segment, list[Any]]:
        entries = dict(segment.entries)
        answers: list[Any] = []
        certain, changed = True, False
        for number in self._numbers:
            item = self._items[number]
            task_id = self._id_of(item)
            entry = None if task_id in segment.arriving else entries.get(task_id)
            if entry is None:
                answers.append(_ELSEWHERE)
                continue
            after, answer = self._rule(item, entry.task, doubtful)
            answers.append(answer)
            if after is None:
                del entries[task_id]
                changed = True
            elif after is not entry.task:
                entries[task_id] = Entry(entry.order, after)
                changed = True
            else:
                certain = False
        if changed:
            # A refusal beside a change is certain, too: the write would fail on an outdated version.
            return replace(segment, entries=entries), answers
        if certain:
            return segment, answers
        raise Refused(answers)


def _nobody(_: object) -> None:
    """Nobody wants to know."""


def _swap(change: Change, stored: Task, doubtful: bool) -> tuple[Task | None, bool]:
    if doubtful and lifecycle.took_effect(change.after, stored):
        return stored, True
    if change.if_unrenewed and stored.lease_expires_at != change.before.lease_expires_at:
        return stored, False
    if stored.version != change.before.version:
        return stored, False
    return _with_renewal(change.after, stored), True


def _with_renewal(after: Task, stored: Task) -> Task:
    """A task that goes on running keeps what was renewed since the change was computed."""
    if after.status is not TaskStatus.Running or stored.lease_expires_at is None or after.lease_expires_at is None:
        return after
    lease_end = max(after.lease_expires_at, stored.lease_expires_at)
    return replace(after, lease_expires_at=lease_end, progress=stored.progress)


def _same(task: Task, stored: Task) -> bool:
    return stored.version == task.version and stored.status.ended
