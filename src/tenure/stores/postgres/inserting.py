"""Submissions, inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from tenure import idempotency
from tenure.errors import IdempotencyConflict
from tenure.idempotency import Reservation, Verdict, read_reservation
from tenure.stores.postgres.records import Database, Statements, column, columns, key_column, load, optional_key, plain
from tenure.submission import Submission
from tenure.task import Task, decode, encode

replace = msgspec.structs.replace


def all_plain(submissions: Sequence[Submission]) -> bool:
    """Whether there is nothing to look up: new ids, no keys."""
    return all(submission.reservation is None and not submission.chosen_id for submission in submissions)


async def insert_new(db: Database, statements: Statements, tasks: Sequence[Task]) -> bool:
    """Insert tasks that should be new, all or none, by the statement that costs least.

    False if they have ordering keys or tags, or if some of them may have ended; it fails if some of them are there. All this
    `insert_plain` can deal with.
    """
    if any(task.ordering_key is not None or task.tags for task in tasks):
        return False
    if len(tasks) == 1:
        ((added, _),) = await db.fetch(statements("insert_one"), *_one(tasks[0]))
        return bool(added)
    arrays = columns([_row(task) for task in tasks], 9, once=_ALIKE)
    del arrays[_ORDERING_KEY]
    ids = [column(task.id) for task in tasks]
    ((added, _),) = await db.fetch(statements("insert_new"), *arrays, min(ids), max(ids))
    return bool(added)


async def insert_plain(
    db: Database, statements: Statements, submissions: Sequence[Submission], now: datetime
) -> list[Task]:
    """Insert new tasks in one statement. Only a repeated call meets an id that is there already."""
    tasks = [submission.task for submission in submissions]
    added = await _insert_tasks(db, statements, tasks)
    if len(added) == len(tasks):
        return tasks
    there = await known(db, statements, {task.id for task in tasks} - added, now)
    return [replace(there[task.id], created=False) if task.id in there else task for task in tasks]


class Insert:
    """One batch of submissions of any kind.

    The keys' records are written first, where there are none: whoever comes second waits for the
    first to commit, and then finds the record. The rest is decided on what was read, in order.
    """

    def __init__(self, db: Database, statements: Statements, now: datetime) -> None:
        self.db, self.statements, self.now = db, statements, now
        self.reservations: dict[str, Reservation] = {}
        self.changed: dict[str, Reservation] = {}
        self.tasks: dict[str, Task] = {}
        self.new: dict[str, Task] = {}
        self.chosen: set[str] = set()

    async def run(self, submissions: Sequence[Submission], *, all_or_nothing: bool) -> list[Task | IdempotencyConflict]:
        """Insert in order. A conflict of a batch that is all or nothing is raised, and the transaction undone."""
        await self._reserve([submission.reservation for submission in submissions if submission.reservation])
        asked = {submission.task.id for submission in submissions}
        asked |= {reservation.task_id for reservation in self.reservations.values()}
        self.chosen = {submission.task.id for submission in submissions if submission.chosen_id}
        if self.chosen or any(record.state == "creating" for record in self.reservations.values()):
            await self.db.fetch(self.statements("share_stones"))
        self.tasks = await known(self.db, self.statements, asked, self.now)
        answers: list[Task | IdempotencyConflict] = []
        for submission in submissions:
            try:
                answers.append(self._insert(submission))
            except IdempotencyConflict as conflict:
                if all_or_nothing:
                    raise
                answers.append(conflict)
        await self._write_reservations()
        beaten = await self._write_tasks()
        return [
            replace(beaten[answer.id], created=False) if isinstance(answer, Task) and answer.id in beaten else answer
            for answer in answers
        ]

    async def _reserve(self, wanted: list[Reservation]) -> None:
        """Write the records that are not there, and read and lock the others."""
        open_keys = {key_column(reservation.identity): reservation for reservation in reversed(wanted)}
        while open_keys:
            rows = [reservation_row(reservation) for reservation in open_keys.values()]
            for (identity,) in await self.db.fetch(self.statements("reserve"), *columns(rows, 3)):
                del open_keys[identity]
            if not open_keys:
                return
            for identity, record in (await reservations(self.db, self.statements, list(open_keys))).items():
                self.reservations[open_keys[identity].identity] = record
                del open_keys[identity]
            # What was there and is gone again was pruned in between: it is free now.

    def _insert(self, submission: Submission) -> Task:
        task, wanted = submission.task, submission.reservation
        if wanted is not None:
            found = self.reservations.get(wanted.identity)
            if found is not None:
                there = self.tasks.get(found.task_id)
                verdict = idempotency.judge(found, wanted, self.now, task_known=there is not None)
                if verdict is Verdict.Existing and there is not None:
                    return replace(there, created=False)
                if verdict is Verdict.Finish:
                    task, wanted = replace(task, id=found.task_id), replace(found, state="ready")
                self.changed[wanted.identity] = wanted
            self.reservations[wanted.identity] = wanted
        there = self.tasks.get(task.id)
        if there is not None:
            return replace(there, created=False)
        self.tasks[task.id] = self.new[task.id] = task
        return task

    async def _write_reservations(self) -> None:
        if self.changed:
            rows = [reservation_row(reservation) for reservation in self.changed.values()]
            await self.db.fetch(self.statements("take_over"), *columns(rows, 3))

    async def _write_tasks(self) -> dict[str, Task]:
        """Write the new tasks; answers with those whose id another producer has written meanwhile."""
        if not self.new:
            return {}
        added = await _insert_tasks(self.db, self.statements, list(self.new.values()))
        missing = self.new.keys() - added
        again = [column(task_id) for task_id in self.chosen & added]
        if again and await self.db.fetch(self.statements("ended_ids"), again):
            msg = "a task with this id has ended while it was being submitted again"
            raise asyncpg.SerializationError(msg)
        return await known(self.db, self.statements, missing, self.now) if missing else {}


async def known(db: Database, statements: Statements, ids: Iterable[str], now: datetime) -> dict[str, Task]:
    """The tasks with these ids, or their stones."""
    keys = [column(task_id) for task_id in ids]
    found = {plain(row[0]): load(row) for row in await db.fetch(statements("get"), keys)}
    if len(found) < len(keys):
        for task_id, record in await db.fetch(statements("stones"), keys, now):
            found.setdefault(plain(task_id), decode(record, plain(task_id)))
    return found


async def _insert_tasks(db: Database, statements: Statements, tasks: list[Task]) -> set[str]:
    tags = [(column(task.id), column(tag)) for task in tasks if task.tags for tag in task.tags]
    rows = [_row(task) for task in tasks]
    ((added, _),) = await db.fetch(statements("insert"), *columns(rows, 9, once=_ALIKE), *columns(tags, 2))
    return {task.id for task in tasks} if added is None else {plain(task_id) for task_id in added}


_ALIKE = (1, 2, 4)
"""Queue, type and time, which the tasks of a batch often share."""
_ORDERING_KEY = 7


def _row(task: Task) -> tuple[Any, ...]:
    return (
        column(task.id),
        column(task.queue),
        column(task.type),
        task.priority or None,
        task.created_at,
        None if task.available_at is task.created_at else task.available_at,
        task.expires_at,
        optional_key(task.ordering_key),
        encode(task),
    )


def _one(task: Task) -> tuple[Any, ...]:
    return (
        column(task.id),
        column(task.queue),
        column(task.type),
        task.priority,
        task.created_at,
        task.available_at,
        task.expires_at,
        encode(task),
    )


async def reservations(db: Database, statements: Statements, identities: list[str]) -> dict[str, Reservation]:
    """The records of keys, by the names that they have in the table, locked."""
    if not identities:
        return {}
    rows = await db.fetch(statements("reservations"), identities)
    return {identity: read_reservation(record, plain(identity)) for identity, record in rows}


def reservation_row(reservation: Reservation) -> tuple[Any, ...]:
    """A record as the table has it."""
    return key_column(reservation.identity), reservation.expires_at, msgspec.json.encode(reservation)
