"""The PostgreSQL store: open tasks in one table, ended ones in another, each call one transaction.

A claim is one statement that skips what other claims have locked; it stands in columns beside the
record, and is made again by the rule of `lifecycle` whenever the record is read. All other changes
are computed by their rule and swapped in if the version still matches. Nothing but the turns of
ordering keys (see `sql/give_turns.sql`) ever waits for another worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from tenure.errors import IdempotencyConflict, StoreUnavailable
from tenure.idempotency import Reservation
from tenure.stores.base import (
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
    Transaction,
    Want,
    first_of_each,
)
from tenure.stores.postgres.address import Address, read_address
from tenure.stores.postgres.borrowed import borrowed
from tenure.stores.postgres.changing import count_overdue, forget, kinds, overdue, prune, renew, set_aside, swap
from tenure.stores.postgres.claiming import Answer, get_ready, read_answer, settle_overdue, take
from tenure.stores.postgres.clock import ServerClock
from tenure.stores.postgres.connections import Connection, Connections
from tenure.stores.postgres.finding import find
from tenure.stores.postgres.handed_out import HandedOut
from tenure.stores.postgres.inserting import Insert, all_plain, insert_new, insert_plain, reservations
from tenure.stores.postgres.migrating import migrate
from tenure.stores.postgres.moving import dump, restore
from tenure.stores.postgres.news import News
from tenure.stores.postgres.noting import notes, put_note
from tenure.stores.postgres.records import PACKAGE, Statements, column, key_column, load, plain
from tenure.stores.postgres.transaction import PostgresTransaction
from tenure.stores.postgres.trouble import misused
from tenure.stores.sql import migrations
from tenure.submission import Submission
from tenure.task import Task, TaskStatus

T = TypeVar("T")

ADD_UP_EVERY = 1000
"""Writes after which the changes of the counts are added up, so that counting stays cheap."""


class PostgresStore(Store):
    """Durable tasks in a schema of a PostgreSQL database."""

    size_limit = 16_000_000

    def __init__(
        self,
        url: str | Address,
        clock: Callable[[], datetime] | None = None,
        server_clock: ServerClock | None = None,
    ) -> None:
        self.address = address = read_address(url) if isinstance(url, str) else url
        self._clock, self._server_clock = clock, server_clock or ServerClock()
        self._statements = Statements(address.schema)
        self._connections = Connections(address, address.connections)
        self._transactions = HandedOut(address, address.transactions)
        self._news = News(address, self._statements)
        self._writes = 0
        # Behind a pooler no statement stays on a connection.
        self._ready = address.poll_only

    async def open(self) -> None:
        await migrate(self._connections, self.address)

    def check(self) -> None:
        self._connections.door.check()

    async def now(self) -> datetime:
        self.check()
        if self._clock is not None:
            return self._clock()
        if not self._server_clock.known:
            ((now,),) = await self._connections.fetch("SELECT clock_timestamp()")
            self._server_clock.hear(now)
        return self._server_clock.now()

    def _moment(self) -> datetime | None:
        """What a statement gets as the time: nothing, which makes it the server's, unless a test has a clock."""
        return None if self._clock is None else self._clock()

    async def insert(
        self, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        if not submissions:
            return []
        now = await self.now()
        plain_ones = hopeful = all_plain(submissions)

        async def insert(db: Connection) -> list[Task | IdempotencyConflict]:
            nonlocal hopeful
            if hopeful:
                # Once: where an id is there already, it fails, and all that others do is called for.
                hopeful, tasks = False, [submission.task for submission in submissions]
                if await insert_new(db, self._statements, tasks):
                    return list(tasks)
            if plain_ones:
                return list(await insert_plain(db, self._statements, submissions, now))
            return await Insert(db, self._statements, now).run(submissions, all_or_nothing=all_or_nothing)

        return await self._write(insert, in_transaction=not plain_ones)

    async def insert_within(
        self, connection: Any, submissions: Sequence[Submission], *, all_or_nothing: bool = False
    ) -> list[Task | IdempotencyConflict]:
        now = await self.now()
        try:
            async with borrowed(connection) as db:
                if all_plain(submissions):
                    return list(await insert_plain(db, self._statements, submissions, now))
                return await Insert(db, self._statements, now).run(submissions, all_or_nothing=all_or_nothing)
        except Exception as error:
            if words := misused(error, self.address.shown):
                raise words from error
            raise

    async def begin(self) -> Transaction:
        transaction = PostgresTransaction(self._transactions, self.address, self._statements, self.now)
        await transaction.begin()
        return transaction

    async def claim(self, want: Want) -> Claimed:
        settled: list[Task] = []
        tasks: list[Task] = []
        anyway = False
        if not self._ready:
            await self._get_ready(want)
        while True:
            left = Want(want.worker_id, want.queues, want.types, want.count - len(tasks), want.lease)
            moment = self._moment()
            rows = await self._connections.run(
                lambda db: take(db, self._statements, left, moment, anyway=anyway),  # noqa: B023 - called at once
                in_transaction=False,
            )
            answer = await read_answer(rows, left)
            if self._clock is None:
                self._server_clock.hear(answer.now)
            tasks += answer.tasks
            if (answer.turns or answer.overdue) and not anyway:
                settled += await self._settle_first(answer)
                anyway = True
                continue
            for damage in answer.damages:
                await self._connections.run(
                    lambda db: set_aside(db, self._statements, damage, moment)  # noqa: B023 - called at once
                )
            if not answer.damages:
                break
            anyway = False
        if tasks or settled:
            await self._written(silently=not settled)
        return Claimed(tasks, settled, None if tasks else answer.next_due)

    async def _get_ready(self, want: Want) -> None:
        """A worker begins: it claims and settles at the same time, on two connections."""
        work = lambda db: get_ready(db, self._statements, want)  # noqa: E731
        await asyncio.gather(*(self._connections.run(work, in_transaction=False) for _ in range(2)))
        self._ready = True

    async def _settle_first(self, answer: Answer) -> list[Task]:
        """Settle what time has caught up with, and give turns; a lock that somebody keeps is waited for another time."""
        settled: list[Task] = []
        if answer.overdue:
            settled = await self._connections.run(lambda db: settle_overdue(db, self._statements, answer.now))
        if answer.turns or any(task.ordering_key is not None for task in settled):
            with contextlib.suppress(StoreUnavailable):
                await self._connections.run(lambda db: db.execute(self._statements("give_turns")), in_transaction=False)
        return settled

    async def swap(self, changes: Sequence[Change]) -> list[bool]:
        if not changes:
            return []
        groups = kinds(changes)
        return await self._write(
            lambda db: swap(db, self._statements, changes, groups), in_transaction=len(groups) > 1
        )  # fmt: skip

    async def renew(self, renewals: Sequence[Renewal]) -> list[Hold]:
        if not renewals:
            return []
        return await self._connections.run(
            lambda db: renew(db, self._statements, renewals, self._moment()), in_transaction=False
        )

    async def reserved(self, wanted: Sequence[Reservation]) -> list[Reservation | None]:
        names = [key_column(record.identity) for record in wanted]
        found = await self._connections.run(lambda db: reservations(db, self._statements, names))
        return [found.get(name) for name in names]

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        rows = await self._connections.fetch(self._statements("get"), [column(task_id) for task_id in ids])
        found = {plain(row[0]): load(row) for row in rows}
        return [found.get(task_id) for task_id in ids]

    async def find(self, query: Query) -> Page:
        return await self._connections.run(lambda db: find(db, self.address.schema, query), in_transaction=False)

    async def overdue(self, now: datetime, limit: int, only: TaskStatus | None = None) -> list[Task]:
        tasks, _ = await self._connections.run(
            lambda db: overdue(db, self._statements, now, limit, only), in_transaction=False
        )
        return tasks

    async def count_overdue(
        self, now: datetime, limit: int, only: TaskStatus, since: datetime | None = None
    ) -> Mapping[str, int]:
        return await self._connections.run(
            lambda db: count_overdue(db, self._statements, now, limit, only, since), in_transaction=False
        )

    async def running_since(self) -> datetime | None:
        ((since,),) = await self._connections.fetch(self._statements("running_since"))
        return since  # type: ignore[no-any-return]

    async def count(self) -> list[Count]:
        rows = await self._connections.fetch(self._statements("counts"))
        counts = [Count(plain(queue), plain(type_), TaskStatus(status), count) for queue, type_, status, count in rows]
        return sorted(counts, key=lambda count: (count.queue, count.type, count.status))

    async def due(self, now: datetime) -> list[Due]:
        rows = await self._connections.fetch(self._statements("first_due"), now)
        found = [Due(plain(queue), plain(type_), since) for queue, type_, since in rows if since is not None]
        if len(found) < len(rows):
            # Nobody has claimed since some keys changed, so the first of each has no turn yet.
            found += await super().due(now)
        return first_of_each(found)

    async def prune(self, ended_before: Mapping[TaskStatus, datetime], now: datetime, limit: int) -> int:
        pruned = await self._connections.run(lambda db: prune(db, self._statements, ended_before, now, limit))
        await self._connections.fetch(self._statements("add_up_counts"))
        return pruned

    async def forget(self, tasks: Sequence[Task], now: datetime) -> list[bool]:
        return await self._write(lambda db: forget(db, self._statements, tasks, now))

    async def dump(self, cursor: str | None = None, limit: int = 500) -> Piece:
        return await self._connections.run(
            lambda db: dump(db, self._statements, cursor, limit), in_transaction=False
        )  # fmt: skip

    async def restore(self, piece: Piece, now: datetime) -> Piece:
        return await self._write(lambda db: restore(db, self._statements, piece, now))

    async def put_note(self, note: Note, *, if_version: int | None = None) -> bool:
        return await self._write(lambda db: put_note(db, self._statements, note, if_version, self._moment()))

    async def notes(self, kind: str) -> list[Note]:
        return await self._connections.run(lambda db: notes(db, self._statements, kind), in_transaction=False)

    def mark(self) -> object:
        return self._news.count

    async def wait(self, mark: object, timeout: float) -> None:
        await self._news.wait(mark, timeout)

    async def about(self) -> dict[str, str]:
        ((version, size),) = await self._connections.fetch(
            "SELECT current_setting('server_version'), pg_size_pretty(sum(pg_total_relation_size(oid)))"
            " FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::text::regnamespace",
            f'"{self.address.schema}"',
        )
        return {
            "store": f"PostgreSQL {version}",
            "database": self.address.shown,
            "schema": f"{self.address.schema}, version {len(migrations(PACKAGE))}",
            "size": str(size),
            "news": "polling only" if self.address.poll_only else "LISTEN/NOTIFY",
        }

    def twin(self) -> Store:
        return PostgresStore(self.address, self._clock, self._server_clock)

    async def close(self) -> None:
        if self._connections.door.shut():
            await self._news.close()
        await self._connections.close()
        await self._transactions.close()

    async def _write(self, work: Callable[[Connection], Awaitable[T]], *, in_transaction: bool = True) -> T:
        answer = await self._connections.run(work, in_transaction=in_transaction)
        await self._written()
        return answer

    async def _written(self, *, silently: bool = False) -> None:
        if not silently:
            self._news.arrived()
        self._writes += 1
        if self._writes % ADD_UP_EVERY == 0:
            with contextlib.suppress(StoreUnavailable):
                await self._connections.fetch(self._statements("add_up_counts"))
