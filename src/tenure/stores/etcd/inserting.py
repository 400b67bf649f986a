"""Submissions: what is absent is inserted together with its reservation, a group in each transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tenure import idempotency
from tenure.errors import IdempotencyConflict, PartlySubmitted, StoreUnavailable
from tenure.idempotency import Reservation, Verdict, read_reservation
from tenure.stores.base import remembered
from tenure.stores.etcd.database import BYTES_LIMIT, Database
from tenure.stores.etcd.layout import SUBMITTED, moment, name, place_of
from tenure.stores.etcd.records import Sight
from tenure.stores.etcd.requests import created_at, get, none_created_since, unmodified, unmodified_since
from tenure.stores.etcd.writing import Batch
from tenure.submission import Submission
from tenure.task import Task, decode

replace = msgspec.structs.replace

GROUP, WHOLE = 30, 1000
"""Submissions in one transaction: those with keys or ids of their own, and plain ones."""
KEYS_LIMIT = 3500
"""Keys that one transaction can write, with transactions within it."""
NARROW = 60
"""Up to so many plain submissions have a condition each; more of them share one, which needs a look before."""
TRIES = 100


class Known(NamedTuple):
    """A reservation, and the revision at which it was written; 0 is for one that is not there."""

    reservation: Reservation | None
    revision: int


class Insert:
    """One batch of submissions, inserted in order.

    Places in the order of submits begin with the revision of the log that was reached before. Whoever submits
    after another was answered must have seen that one's revision, or a later one: the first transaction
    expects that nobody has submitted since, and if somebody has, its refusal tells the revision to use.
    """

    def __init__(self, db: Database, now: datetime) -> None:
        self.db, self.now = db, now
        self.after = db.client.revision
        self.seen = 0
        self.fresh = False
        self.number = 0
        self.reservations: dict[str, Known] = {}
        self.tasks: dict[str, Task | None] = {}
        self.stones: dict[str, int] = {}
        self.new: dict[str, Task] = {}
        self.changed: dict[str, Reservation] = {}

    async def run(self, submissions: Sequence[Submission], *, whole: bool) -> list[Task | IdempotencyConflict]:
        """Insert group by group; with `whole`, a conflict that can be seen before is raised before anything is written."""
        if not self.after:
            await self.db.read([self._bell()])
            self.after = self.db.client.revision
        groups = _groups(submissions)
        if whole and len(groups) > 1:
            await self._read(submissions)
            self._decide(submissions, whole=True)
        answers: list[Task | IdempotencyConflict] = []
        for group in groups:
            try:
                answers += await self._insert(group, whole=whole)
            except StoreUnavailable as error:
                made = [answer for answer in answers if isinstance(answer, Task)]
                if made:
                    raise PartlySubmitted(made, len(submissions), str(error)) from error
                raise
        return answers

    async def _insert(self, group: Sequence[Submission], *, whole: bool) -> list[Task | IdempotencyConflict]:
        looked = False
        if not _is_plain(group) or len(group) > NARROW:
            await self._read(group)
            looked = True
        for _ in range(TRIES):
            if not looked:
                self.tasks = dict.fromkeys((submission.task.id for submission in group), None)
            answers = self._decide(group, whole=whole)
            if not self.new and not self.changed:
                return answers
            if await self._commit(ordered=self.fresh, wide=len(self.new) > NARROW):
                return answers
            await self._read(group)
            looked = True
        msg = f"Others kept submitting the same keys as this batch of {len(group)}. Try again."
        raise StoreUnavailable(msg)

    async def _read(self, group: Sequence[Submission]) -> None:
        """Look up everything that the decision depends on."""
        layout = self.db.layout
        wanted = [submission.reservation for submission in group if submission.reservation]
        found = await self.db.read(
            [get(layout.reservation(reservation.identity)) for reservation in wanted] or [self._bell()]
        )
        self.seen = self.db.client.revision
        if not self.fresh:
            # This read began after the submit did: whatever was answered before then has an earlier place.
            self.after, self.fresh = self.seen, True
        for reservation, kvs in zip(wanted, found, strict=False):
            self.reservations[reservation.identity] = (
                Known(read_reservation(kvs[0].value, kvs[0].key.decode()), kvs[0].mod_revision)
                if kvs
                else Known(None, 0)
            )
        ids = {submission.task.id for submission in group}
        ids |= {known.reservation.task_id for known in self.reservations.values() if known.reservation}
        await self.know(list(ids))

    def _bell(self) -> Any:
        return get(self.db.layout.news(SUBMITTED))

    async def know(self, ids: Sequence[str]) -> None:
        """Look up these tasks and stones."""
        for task_id, stored in zip(ids, await self.db.tasks(ids), strict=True):
            self.tasks[task_id] = stored.task if stored else None
        missing = [task_id for task_id in ids if self.tasks[task_id] is None]
        stones = await self.db.read([get(self.db.layout.stone(task_id)) for task_id in missing]) if missing else []
        for task_id, kvs in zip(missing, stones, strict=True):
            self.stones[task_id] = kvs[0].mod_revision if kvs else 0
            stone = decode(kvs[0].value, task_id) if kvs else None
            if stone is not None and remembered(stone, self.now) is not None:
                self.tasks[task_id] = stone

    def _decide(self, group: Sequence[Submission], *, whole: bool) -> list[Task | IdempotencyConflict]:
        self.new, self.changed = {}, {}
        answers: list[Task | IdempotencyConflict] = []
        for submission in group:
            try:
                answers.append(self._one(submission))
            except IdempotencyConflict as conflict:
                if whole:
                    raise
                answers.append(conflict)
        return answers

    def _one(self, submission: Submission) -> Task:
        task, wanted = submission.task, submission.reservation
        if wanted is not None:
            found = self.changed.get(wanted.identity) or self.reservations[wanted.identity].reservation
            if found is not None:
                there = self._there(found.task_id)
                verdict = idempotency.judge(found, wanted, self.now, task_known=there is not None)
                if verdict is Verdict.Existing and there is not None:
                    return replace(there, created=False)
                if verdict is Verdict.Finish:
                    task, wanted = replace(task, id=found.task_id), replace(found, state="ready")
            self.changed[wanted.identity] = wanted
        there = self._there(task.id)
        if there is not None:
            return replace(there, created=False)
        self.new[task.id] = task
        return task

    def _there(self, task_id: str) -> Task | None:
        return self.new.get(task_id) or self.tasks.get(task_id)

    async def _commit(self, *, ordered: bool, wide: bool) -> bool:
        """Write what is new, if it still is, and nobody has submitted meanwhile unless the order is settled."""
        db, layout, batch = self.db, self.db.layout, Batch()
        if not ordered:
            batch.compares.append(unmodified_since(layout.news(SUBMITTED), self.after))
        places: dict[str, bytes] = {}
        for task in self.new.values():
            places[task.id] = place = place_of(self.after, self.number + len(places))
            db.move(batch, None, task, place)
            if not wide:
                batch.compares.append(created_at(layout.task(task.id), 0))
            if not wide and task.id in self.stones:
                batch.compares.append(unmodified(layout.stone(task.id), self.stones[task.id]))
        if wide:
            keys = sorted(layout.task(task_id) for task_id in self.new)
            batch.compares.append(none_created_since(keys[0], keys[-1] + b"\0", self.seen))
        for reservation in self.changed.values():
            known = self.reservations[reservation.identity]
            batch.compares.append(unmodified(layout.reservation(reservation.identity), known.revision))
            reserve(db, batch, known.reservation, reservation)
        outcome = await db.commit(batch)
        if not outcome.done:
            if not self.fresh:
                self.after, self.fresh = outcome.revision, True
            return False
        self.fresh = True
        self.number += len(places)
        for task in self.new.values():
            db.memory.put(task.id, Sight(task.version, places[task.id], outcome.revision, 0))
        return True


def reserve(db: Database, batch: Batch, old: Reservation | None, new: Reservation | None) -> None:
    """Put the record of a key in the place of an old one, with its place among those that get stale."""
    batch.replace(_reservation_entries(db, old), _reservation_entries(db, new))


def _reservation_entries(db: Database, reservation: Reservation | None) -> dict[bytes, bytes]:
    if reservation is None:
        return {}
    entries = {db.layout.reservation(reservation.identity): msgspec.json.encode(reservation)}
    if reservation.expires_at is not None:
        entries[db.layout.key(b"stale", moment(reservation.expires_at), name(reservation.identity))] = b""
    return entries


def _is_plain(group: Sequence[Submission]) -> bool:
    return all(submission.reservation is None and not submission.chosen_id for submission in group)


def _groups(submissions: Sequence[Submission]) -> list[list[Submission]]:
    """What goes into one transaction each, in order."""
    limit = WHOLE if _is_plain(submissions) else GROUP
    groups: list[list[Submission]] = []
    size, keys = BYTES_LIMIT, 0
    for submission in submissions:
        tags = len(submission.task.tags)
        more = len(bytes(submission.task.input_json)) + 600 + 100 * tags
        size, keys = size + more, keys + tags + 3
        if size > BYTES_LIMIT or keys > KEYS_LIMIT or len(groups[-1]) >= limit:
            groups.append([])
            size, keys = more, tags + 3
        groups[-1].append(submission)
    return groups
