"""Submissions: what is there already is read, the rest is decided, and written only if what was read still holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tenure import idempotency
from tenure.errors import ConcurrentChange, IdempotencyConflict, PartlySubmitted, StoreUnavailable
from tenure.idempotency import Kind, Reservation, Verdict, read_reservation
from tenure.stores.base import remembered
from tenure.stores.dynamodb.items import attributes, is_stone, load, places, present
from tenure.stores.dynamodb.keys import RANKS, Key, following
from tenure.stores.dynamodb.ordering import HEAD, Head, add_turn, move_head, read_head
from tenure.stores.dynamodb.table import TRIES, Action, token
from tenure.stores.dynamodb.together import Entry, Parts, all_done, groups, write_together
from tenure.stores.dynamodb.wire import Item, absent, both, compared, either, equal
from tenure.submission import Submission
from tenure.task import Task
from tenure.times import FOREVER, to_micros, to_text

replace = msgspec.structs.replace

Answer = Task | IdempotencyConflict


def is_plain(submission: Submission) -> bool:
    """Whether there is nothing to look up: a new id, no key, no order."""
    return submission.reservation is None and not submission.chosen_id and submission.task.ordering_key is None


class Insert:
    """One batch of submissions. Each pass answers some of them, until all are answered."""

    def __init__(self, parts: Parts, now: datetime, submissions: Sequence[Submission]) -> None:
        self.parts, self.now, self.submissions = parts, now, submissions
        self.answers: dict[int, Answer] = {}
        self.ranks = [
            RANKS.next(submission.task.id, now, chosen=submission.chosen_id) for submission in submissions
        ]  # fmt: skip

    async def run(self, *, all_or_nothing: bool) -> list[Answer]:
        """Insert in order. A conflict of a batch that is all or nothing is raised before anything is written."""
        await self.parts.lanes.ensure((submission.task for submission in self.submissions), self.now)
        for attempt in range(TRIES * 4):
            left = [number for number in range(len(self.submissions)) if number not in self.answers]
            if not left:
                return self._answered(all_or_nothing=all_or_nothing)
            if attempt > 1:
                await self.parts.table.pause(min(attempt, 6))
            seen = await Seen.read(self.parts, self.now, [self.submissions[number] for number in left])
            if all_or_nothing and attempt == 0:
                seen.rehearse([self.submissions[number] for number in left])
            try:
                await self._pass(left, seen, whole=all_or_nothing)
            except StoreUnavailable as error:
                if all_or_nothing and (created := self._created()):
                    raise PartlySubmitted(created, len(self.submissions), str(error)) from None
                raise
        raise ConcurrentChange(self.submissions[0].task.id)

    def _created(self) -> list[Task]:
        return [answer for answer in self.answers.values() if isinstance(answer, Task) and answer.created]

    def _answered(self, *, all_or_nothing: bool) -> list[Answer]:
        """All answers in order. A large batch is several transactions, and a key may be taken between them."""
        answers = [self.answers[number] for number in range(len(self.submissions))]
        conflict = next((answer for answer in answers if isinstance(answer, IdempotencyConflict)), None)
        if conflict is not None and all_or_nothing:
            if created := self._created():
                raise PartlySubmitted(created, len(self.submissions), str(conflict)) from conflict
            raise conflict
        return answers

    async def _pass(self, left: list[int], seen: Seen, *, whole: bool) -> None:
        """Decide on what was seen, and write. What rests on an earlier submission of this pass waits for the next."""
        plain: list[Entry] = []
        others: list[Entry] = []
        for number in left:
            submission = self.submissions[number]
            if is_plain(submission):
                plain.append(self._entry(number, submission.task, self.ranks[number], []))
                continue
            try:
                decided = seen.decide(submission)
            except IdempotencyConflict as conflict:
                self.answers[number] = conflict
                continue
            if decided is None:
                continue
            task, reservation = decided
            if not task.created and reservation is None:
                self.answers[number] = task
                continue
            others.append(self._planned(number, seen, task, reservation))
        if whole and len(everything := list(groups([*plain, *others]))) == 1:
            await self._write(everything[0], whole=True)
            return
        calls = [self._write(group) for group in groups(plain)]
        await all_done([*calls, self._write_in_order(others)])

    def _planned(self, number: int, seen: Seen, task: Task, reservation: Action | None) -> Entry:
        more = [] if reservation is None else [reservation]
        if not task.created:
            return Entry(more, None, None, (number, task))
        key, rank = task.ordering_key, self.ranks[number]
        if key is None:
            return self._entry(number, task, rank, more)
        head = seen.heads[key]
        if rank <= head.last:
            rank = self.ranks[number] = following(head.last)
        seen.heads[key] = new = Head(head.task_id or task.id, rank, token())
        more += [add_turn(self.parts, task, rank), move_head(self.parts, key, head, new)]
        return self._entry(number, task, rank, more, blocked=head.task_id is not None)

    def _entry(self, number: int, task: Task, rank: str, more: list[Action], *, blocked: bool = False) -> Entry:
        item = present(attributes(task) | places(self.parts.keys, task, rank, blocked=blocked))
        action = self.parts.table.put(self.parts.keys.task(task.id), item, free(self.parts, self.now))
        return Entry([action, *more], None, task, (number, task))

    async def _write_in_order(self, entries: list[Entry]) -> None:
        for group in groups(entries):
            await self._write(group)

    async def _write(self, group: list[Entry], *, whole: bool = False) -> None:
        """Write one transaction. What fails is read and decided again in the next pass.

        Moves of a key's head rest on each other: of those, one that fails takes the others with it.
        """
        whole = whole or any(_is_head(self.parts, action) for entry in group for action in entry.actions)
        await write_together(self.parts, _one_head_each(self.parts, group), whole=whole)
        failed = [entry for entry in group if entry.failed]
        for entry in failed:
            number, task = entry.mark
            if is_plain(self.submissions[number]) and entry.failed and (item := entry.failed[0].item) is not None:
                self.answers[number] = replace(load(item, task.id), created=False)
        if not (whole and failed):
            self.answers |= dict(entry.mark for entry in group if not entry.failed)


def free(parts: Parts, now: datetime) -> Any:
    """There is no task with this id, nor a stone whose time is not over."""
    return either(absent(parts.table.pk), both(compared("stone", "<=", to_text(now))))


def _is_head(parts: Parts, action: Action) -> bool:
    put = action.get("Put")
    return put is not None and put["Item"][parts.table.sk]["S"] == HEAD


def _one_head_each(parts: Parts, group: list[Entry]) -> list[Entry]:
    """A transaction can write an item once: of several moves of a key's head, the first condition and the last value."""
    heads: dict[str, Action] = {}
    for entry in group:
        for action in [action for action in entry.actions if _is_head(parts, action)]:
            pk = action["Put"]["Item"][parts.table.pk]["S"]
            if pk in heads:
                heads[pk]["Put"]["Item"] = action["Put"]["Item"]
                entry.actions.remove(action)
            else:
                heads[pk] = action
    return group


class Seen:
    """What stands in the table for a batch: records of keys, tasks or their stones, heads of ordering keys."""

    def __init__(self, parts: Parts, now: datetime) -> None:
        self.parts, self.now = parts, now
        self.reservations: dict[str, tuple[Reservation, Item]] = {}
        self.tasks: dict[str, Task] = {}
        self.heads: dict[str, Head] = {}
        self._touched: set[str] = set()

    @classmethod
    async def read(cls, parts: Parts, now: datetime, submissions: Sequence[Submission]) -> Seen:
        """Read everything that the submissions depend on."""
        seen = cls(parts, now)
        special = [submission for submission in submissions if not is_plain(submission)]
        if not special:
            return seen
        wanted = {parts.keys.reservation(s.reservation): s.reservation for s in special if s.reservation}
        keys = {s.task.ordering_key for s in special if s.task.ordering_key is not None}
        heads = {(parts.keys.order(key), HEAD): key for key in keys}
        found = await parts.table.get([*wanted, *heads, *(parts.keys.task(s.task.id) for s in special)])
        for place, reservation in wanted.items():
            if place in found:
                record = read_reservation(found[place]["record"], reservation.identity)
                seen.reservations[reservation.identity] = record, found[place]
        seen.heads = {key: read_head(found.get(place)) for place, key in heads.items()}
        seen._take_tasks(found)
        named = {record.task_id for record, _ in seen.reservations.values()} - {s.task.id for s in special}
        if named:
            seen._take_tasks(await parts.table.get(parts.keys.task(task_id) for task_id in named))
        return seen

    def _take_tasks(self, found: dict[Key, Item]) -> None:
        for (pk, _), item in found.items():
            if "record" not in item or "job_type" not in item:
                continue
            task_id = self.parts.keys.task_id(pk)
            task = load(item, task_id)
            if not is_stone(item) or remembered(task, self.now) is not None:
                self.tasks[task_id] = task

    def decide(self, submission: Submission) -> tuple[Task, Action | None] | None:
        """The task that answers a submission, new or known, and the write of its key's record.

        None when an earlier submission of this pass is about to write what this one depends on.
        """
        touches = {f"task {submission.task.id}"}
        if submission.reservation is not None:
            touches.add(submission.reservation.identity)
        waits = not touches.isdisjoint(self._touched)
        # Whoever comes after one that waits, and depends on the same, waits for it in turn: batches go in order.
        self._touched |= touches
        if waits:
            return None
        task, reservation = self._judged(submission, self.reservations)
        known = self.tasks.get(task.id)
        self._touched.add(f"task {task.id}")
        written = None if reservation is None else self._write(reservation)
        return (task if known is None else replace(known, created=False)), written

    def _judged(
        self, submission: Submission, reservations: dict[str, tuple[Reservation, Item]]
    ) -> tuple[Task, Reservation | None]:
        """The task that a submission means, and the record to write, None when that stands already."""
        task, wanted = submission.task, submission.reservation
        if wanted is None or wanted.identity not in reservations:
            return task, wanted
        found, _ = reservations[wanted.identity]
        known = self.tasks.get(found.task_id)
        verdict = idempotency.judge(found, wanted, self.now, task_known=known is not None)
        if verdict is Verdict.Existing and known is not None:
            return known, None
        if verdict is Verdict.Finish:
            return replace(task, id=found.task_id), replace(found, state="ready")
        return task, wanted

    def _write(self, reservation: Reservation) -> Action:
        key = self.parts.keys.reservation(reservation)
        condition = None
        if reservation.identity in self.reservations:
            condition = equal(record=self.reservations[reservation.identity][1]["record"])
        return self.parts.table.put(key, reservation_item(self.parts, reservation), condition)

    def rehearse(self, submissions: Sequence[Submission]) -> None:
        """Go through a batch without writing; its first conflict is raised."""
        stage = Seen(self.parts, self.now)
        stage.tasks, reservations = dict(self.tasks), dict(self.reservations)
        for submission in submissions:
            task, reservation = stage._judged(submission, reservations)
            if reservation is not None:
                reservations[reservation.identity] = reservation, {}
            stage.tasks.setdefault(task.id, task)


def reservation_item(parts: Parts, reservation: Reservation) -> Item:
    """The record of a key or a slot as an item; a slot points to its job as the document says."""
    end = reservation.expires_at or FOREVER
    shard = parts.keys.shard(reservation.identity)
    item: Item = {
        "record": msgspec.json.encode(reservation).decode(),
        "task_id": reservation.task_id,
        "time_pk": parts.keys.outdated("key", shard),
        "time_sk": f"{to_text(end)}#{reservation.key_hash}",
    }
    if reservation.kind is Kind.Slot:
        item["job_pk"], item["job_sk"] = parts.keys.task(reservation.task_id)
    if reservation.expires_at is not None:
        item["ttl"] = to_micros(reservation.expires_at) // 1_000_000 + 1
    return item
