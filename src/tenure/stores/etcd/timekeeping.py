"""Time enters the store once: one process is elected, and stamps it into the log.

The stamp goes on from the last one by the seconds that the elected process has counted; what its clock on the
wall says does not matter. Only when nobody has counted, because the store is new or was left alone, and
against slow drift, the servers are asked for theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.etcd.client import TXN, Client, Unanswered
from tenure.stores.etcd.clock import LogClock, ticks
from tenure.stores.etcd.layout import ASKED, TIME, Layout
from tenure.stores.etcd.requests import KeyValue, Txn, created_at, get, put
from tenure.stores.etcd.server_time import server_time
from tenure.stores.etcd.wire import message
from tenure.times import from_text, to_text

log = logging.getLogger("tenure.store")

OFFICE = 10
"""Seconds after which a keeper that gives no sign of life is replaced."""
ASK_PATIENCE = 1.0
COMPARE_EVERY = 60.0
SLOWER = 0.05
"""A clock that is ahead of the servers is never set back. It goes slower by so much until they have caught up."""


class Timekeeper:
    """Tells this handle the store's time, and keeps it for everybody when elected."""

    def __init__(self, client: Client, layout: Layout, clock: LogClock) -> None:
        self._client, self._clock = client, clock
        self._time, self._office = layout.news(TIME), layout.key(b"timekeeper")
        self._asked = layout.news(ASKED)
        self._one = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self._lease = self._elected_at = 0
        self._compared = 0.0
        self.wanted = asyncio.Event()
        """Set when somebody asks for a stamp."""

    async def now(self) -> datetime:
        """The store's time."""
        if not self._clock.known:
            async with self._one:
                if not self._clock.known:
                    await self._find_out()
        return self._clock.now()

    async def _find_out(self) -> None:
        try:
            for _ in range(3):
                (time, office) = await self._read(self._time, self._office)
                if office is None:
                    if await self._stand(time):
                        return
                elif await self._ask():
                    return
        except StoreUnavailable:
            if not self._clock.started:
                raise
        if not self._clock.started:
            self._clock.hear(await self._beginning(time))
        self._clock.trust(5.0)

    async def _ask(self) -> bool:
        """Ask whoever keeps the time for a stamp; false when there is no answer."""
        answer = await self._client.ask(TXN, Txn(success=[put(self._asked, b"")]))
        deadline = ticks() + ASK_PATIENCE
        pause = 0.002
        while ticks() < deadline:
            (time,) = await self._read(self._time)
            if time is not None and time.mod_revision > answer.header.revision:
                self._clock.hear(from_text(time.value.decode()))
                return True
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        return False

    async def _stand(self, time: KeyValue | None) -> bool:
        """Become the one who keeps the time, unless another is faster."""
        now = self._clock.now() if self._clock.started else await self._beginning(time)
        if time is not None:
            now = max(now, from_text(time.value.decode()))
        began = ticks()
        lease = await self._client.ask("Lease/LeaseGrant", message("LeaseGrantRequest")(TTL=OFFICE))
        name = secrets.token_hex(8).encode()
        now += timedelta(seconds=ticks() - began)
        request = Txn(
            compare=[created_at(self._office, 0)],
            success=[put(self._office, name, lease.ID), put(self._time, to_text(now).encode())],
        )
        with contextlib.suppress(Unanswered):
            await self._client.tell(TXN, request)
        (office,) = await self._read(self._office)
        if office is None or office.value != name:
            return False
        self._clock.hear(now)
        self._clock.keeping = True
        self._compared = ticks()
        self._lease, self._elected_at = lease.ID, office.create_revision
        self._keeping = asyncio.create_task(self._keep(), name="tenure-timekeeper")
        return True

    async def _beginning(self, time: KeyValue | None) -> datetime:
        """The time of a store where nobody has counted it."""
        now = await server_time(self._client.address)
        if now is None:
            log.warning("the servers do not tell the time over HTTP: this machine's clock is used for the store's")
            now = datetime.now(UTC)
        return now if time is None else max(now, from_text(time.value.decode()))

    async def _keep(self) -> None:
        """Stay in office, and stamp whenever somebody asks."""
        seen = ticks()
        try:
            while ticks() - seen < OFFICE:
                if await self._sign_of_life():
                    seen = ticks()
                next_sign = ticks() + OFFICE / 4
                while (left := next_sign - ticks()) > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self.wanted.wait()
                            self.wanted.clear()
                            await self._stamp()
                await self._compare()
        except StoreError as error:
            log.debug("another keeps the time from now on: %s", error)
        finally:
            self._clock.keeping = False
            self._clock.hear(self._clock.now())

    async def _sign_of_life(self) -> bool:
        """Renew the office; an error when it was lost."""
        member = self._client.member
        try:
            call = self._client.call("Lease/LeaseKeepAlive")(metadata=await self._client.metadata())
            try:
                async with asyncio.timeout(self._client.patience):
                    await call.write(message("LeaseKeepAliveRequest")(ID=self._lease))
                    answer: Any = await call.read()
            finally:
                call.cancel()
        except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError):
            self._client.leave(member)
            return False
        if answer is grpc.aio.EOF or answer.TTL <= 0:
            msg = "the office of the timekeeper has lapsed"
            raise StoreUnavailable(msg)
        return True

    async def _stamp(self) -> None:
        """Put the time into the log, if this process is still the one to do so."""
        request = Txn(
            compare=[created_at(self._office, self._elected_at)],
            success=[put(self._time, to_text(self._clock.now()).encode())],
        )
        with contextlib.suppress(Unanswered):
            response = await self._client.tell(TXN, request)
            if not response.succeeded:
                msg = "another process was elected to keep the time"
                raise StoreUnavailable(msg)

    async def _compare(self) -> None:
        """Follow the servers' clocks: forwards at once, backwards by going slower."""
        passed = ticks() - self._compared
        if passed < COMPARE_EVERY:
            return
        self._compared = ticks()
        theirs = await server_time(self._client.address)
        if theirs is None:
            return
        ahead = (self._clock.now() - theirs).total_seconds()
        if ahead < -1:
            self._clock.shift(-ahead)
        elif ahead > 2:
            self._clock.shift(-min(ahead - 2, passed * SLOWER))

    async def _read(self, *keys: bytes) -> list[KeyValue | None]:
        found = await self._client.read([get(key) for key in keys])
        return [answer.response_range.kvs[0] if answer.response_range.kvs else None for answer in found]

    async def close(self) -> None:
        """Leave the office, so that another can take it at once."""
        if self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        self._keeping = None
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(1):
                await self._client.tell("Lease/LeaseRevoke", message("LeaseRevokeRequest")(ID=self._lease))
