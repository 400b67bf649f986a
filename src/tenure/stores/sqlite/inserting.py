"""Submissions, inside a transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from tenure import idempotency
from tenure.errors import IdempotencyConflict
from tenure.idempotency import Reservation, Verdict, read_reservation
from tenure.stores.sqlite.bulk import pieces, run_many
from tenure.stores.sqlite.records import Lane, count, get, insert, statement
from tenure.submission import Submission
from tenure.task import Task, decode
from tenure.times import to_micros

replace = msgspec.structs.replace
_Kind = tuple[str, str, int, datetime, datetime, datetime | None]
"""What tasks of a bulk submit nearly always have in common."""


class Insert:
    """One batch of submissions."""

    def __init__(self, db: sqlite3.Connection, now: datetime) -> None:
        self.db, self.now = db, now
        self.counts: Counter[Lane] = Counter()

    def run(self, submissions: Sequence[Submission], *, all_or_nothing: bool) -> list[Task | IdempotencyConflict]:
        """Insert in order; the numbers of the rows are the submit order."""
        answers: list[Task | IdempotencyConflict] = []
        for plain, group in groupby(submissions, key=_is_plain):
            if plain:
                answers += self._insert_plain([submission.task for submission in group])
                continue
            for submission in group:
                try:
                    answers.append(self._insert(submission))
                except IdempotencyConflict as conflict:
                    if all_or_nothing:
                        raise
                    answers.append(conflict)
        count(self.db, self.counts)
        return answers

    def _insert_plain(self, tasks: list[Task]) -> list[Task]:
        """New ids and nothing to look up: a statement for many. One that meets an id that is there already does nothing."""
        answers: list[Task] = []
        for piece in pieces(tasks):
            kinds = Counter([_kind(task) for task in piece])
            try:
                self._insert_kinds(piece, list(kinds))
            except sqlite3.IntegrityError:
                answers += [self._insert_absent(task) for task in piece]
                continue
            answers += piece
            for (queue, type_, *_), number in kinds.items():
                self.counts[queue, type_, "pending"] += number
        return answers

    def _insert_kinds(self, tasks: Sequence[Task], kinds: list[_Kind]) -> None:
        if len(kinds) > 1:
            insert(self.db, "insert", tasks, _row)
            return
        queue, type_, priority, *times = kinds[0]
        moments = [None if time is None else to_micros(time) for time in times]
        insert(self.db, "insert_alike", tasks, _own, common=(queue, type_, priority, *moments))

    def _insert(self, submission: Submission) -> Task:
        task, wanted = submission.task, submission.reservation
        if wanted is not None:
            found = reservation(self.db, wanted.identity)
            if found is not None:
                task_there = known(self.db, found.task_id, self.now)
                verdict = idempotency.judge(found, wanted, self.now, task_known=task_there is not None)
                if verdict is Verdict.Existing and task_there is not None:
                    return replace(task_there, created=False)
                if verdict is Verdict.Finish:
                    task, wanted = replace(task, id=found.task_id), replace(found, state="ready")
            expires_at = None if wanted.expires_at is None else to_micros(wanted.expires_at)
            self.db.execute(statement("reserve"), (wanted.identity, expires_at, msgspec.json.encode(wanted)))
        return self._insert_absent(task)

    def _insert_absent(self, task: Task) -> Task:
        there = known(self.db, task.id, self.now)
        if there is not None:
            return replace(there, created=False)
        key = task.ordering_key
        blocked = key is not None and self.db.execute(statement("key_open"), (key,)).fetchone() is not None
        seq = insert(self.db, "insert", [task], partial(_row, blocked=blocked))
        run_many(self.db, statement("tag"), [(tag, seq) for tag in task.tags])
        self.counts[task.queue, task.type, "pending"] += 1
        return task


def reservation(db: sqlite3.Connection, identity: str) -> Reservation | None:
    """The record of a key."""
    row = db.execute(statement("reservation"), (identity,)).fetchone()
    return None if row is None else read_reservation(row[0], identity)


def known(db: sqlite3.Connection, task_id: str, now: datetime) -> Task | None:
    """The task with this id, or its stone."""
    task = get(db, task_id)
    if task is None:
        row = db.execute(statement("stone"), (task_id, to_micros(now))).fetchone()
        task = row and decode(row[0], task_id)
    return task


def _is_plain(submission: Submission) -> bool:
    task = submission.task
    return submission.reservation is None and not submission.chosen_id and task.ordering_key is None and not task.tags


def _kind(task: Task) -> _Kind:
    return task.queue, task.type, task.priority, task.created_at, task.available_at, task.expires_at


def _own(task: Task) -> tuple[str]:
    return (task.id,)


def _row(task: Task, *, blocked: bool = False) -> tuple[Any, ...]:
    return (
        task.id,
        task.queue,
        task.type,
        task.priority,
        int(blocked),
        created := to_micros(task.created_at),
        created if task.available_at is task.created_at else to_micros(task.available_at),
        "" if task.expires_at is None else to_micros(task.expires_at),
        task.ordering_key or "",
    )
