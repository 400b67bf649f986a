"""A handler's own writes and the end of its task, in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime

import asyncpg

from tenure.errors import StoreUnavailable, TaskNotFound
from tenure.stores.base import Change, Transaction
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.changing import kinds, swap
from tenure.stores.postgres.connections import Connection
from tenure.stores.postgres.handed_out import HandedOut
from tenure.stores.postgres.records import Statements, column, load, load_open
from tenure.stores.postgres.trouble import Trouble, explained
from tenure.task import Task

ROLLBACK_PATIENCE = 2.0
"""Seconds for a rollback. After that the connection is closed, which undoes its transaction as well."""


class PostgresTransaction(Transaction):
    """One transaction on a connection of its own.

    The task's row is locked only at the end: until then leases are renewed as usual. A claim that
    is no longer the newest is refused by the rule, and everything the handler wrote is undone.
    """

    connection: Connection

    def __init__(
        self,
        connections: HandedOut,
        address: Address,
        statements: Statements,
        now: Callable[[], Awaitable[datetime]],
    ) -> None:
        self._connections, self._address = connections, address
        self._statements, self._now = statements, now
        self._stack = contextlib.AsyncExitStack()

    async def begin(self) -> None:
        """Take a connection and begin."""
        try:
            self.connection = await self._stack.enter_async_context(self._connections.lend())
            self._transaction = self.connection.transaction(isolation="read_committed")
            await self._transaction.start()
        except Trouble as error:
            await self.rollback()
            raise explained(error, self._address.shown) from error
        except BaseException:
            await self.rollback()
            raise

    async def commit(self, task_id: str, rule: Callable[[Task, datetime], Task]) -> Task:
        try:
            after = await self._end(task_id, rule)
            await self._transaction.commit()
        except asyncpg.SerializationError as error:
            await self.rollback()
            msg = (
                f"Task {task_id} cannot end in the transaction of its handler, which does not bear what has changed since "
                f"it began, such as the lease ({error}). Leave context.transaction() at READ COMMITTED, and lock what must "
                "not change: SELECT … FOR UPDATE."
            )
            raise StoreUnavailable(msg) from error
        except Trouble as error:
            await self.rollback()
            raise explained(error, self._address.shown) from error
        except BaseException:
            await self.rollback()
            raise
        await self._stack.aclose()
        return after

    async def _end(self, task_id: str, rule: Callable[[Task, datetime], Task]) -> Task:
        if not self.connection.is_in_transaction():
            msg = "The handler has ended its transaction by itself; only returning from the handler may commit it."
            raise StoreUnavailable(msg)
        now = await self._now()
        key = column(task_id)
        if rows := await self.connection.fetch(self._statements("lock_task"), key):
            task = load_open(rows[0])
        elif rows := await self.connection.fetch(self._statements("get"), [key]):
            task = load(rows[0])
        else:
            raise TaskNotFound(task_id)
        after = rule(task, now)
        if after is not task:
            changes = [Change(task, after)]
            (made,) = await swap(self.connection, self._statements, changes, kinds(changes))
            assert made, "the row was locked"
        return after

    async def rollback(self) -> None:
        if not hasattr(self, "_transaction"):
            return
        undone = False
        try:
            with contextlib.suppress(*Trouble):
                async with asyncio.timeout(ROLLBACK_PATIENCE):
                    await self._transaction.rollback()
                undone = True
        finally:
            if not undone:
                # One that the handler itself has closed is out of reach already.
                with contextlib.suppress(asyncpg.InterfaceError):
                    self.connection.terminate()
            await self._stack.aclose()
