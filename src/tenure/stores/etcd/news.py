"""Waking up when something was written: a watch that goes on where it was when it breaks.

It is an optimisation over the caller's poll. When the log was compacted meanwhile, what was missed cannot be
told any more: then everybody is woken to look for themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from tenure.errors import StoreError
from tenure.stores.etcd.client import WATCH, Client
from tenure.stores.etcd.layout import CHANGED, SUBMITTED, Layout, after
from tenure.stores.etcd.records import log
from tenure.stores.etcd.wire import message

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Mark(NamedTuple):
    """How much has been heard, and up to which revision of the log nothing can have been missed."""

    heard: int
    revision: int


class News:
    """Counts what was written, by us or by others, and wakes whoever waits for it."""

    def __init__(self, client: Client, layout: Layout, on_other: Callable[[bytes, bytes], None]) -> None:
        self._client, self._on_other = client, on_other
        self._folder = layout.folder(b"news")
        self._sleepers: set[asyncio.Future[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._from = 0
        self._closed = False
        self.count = 0
        self.watches = 0

    def mark(self) -> Mark:
        """The state of knowledge now."""
        return Mark(self.count, self._client.revision)

    def arrived(self) -> None:
        """Something was written."""
        self.count += 1
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    async def wait(self, mark: object, seconds: float) -> None:
        """Return when something was written since the mark, or when the time is over; sometimes earlier."""
        assert isinstance(mark, Mark)
        if self._closed or self.count != mark.heard or seconds <= 0:
            return
        self.listen(mark.revision)
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            await asyncio.wait([sleeper], timeout=seconds)
        finally:
            self._sleepers.discard(sleeper)

    def listen(self, since: int = 0) -> None:
        """Begin to watch, from the revision after this one on."""
        if self._listening is None and not self._closed:
            self._from = since + 1 if since else 0
            self._listening = asyncio.create_task(self._listen(), name="tenure-news")

    async def close(self) -> None:
        """Stop watching, and let everyone go."""
        self._closed = True
        self.arrived()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _listen(self) -> None:
        """Keep a watch, whatever happens to it."""
        pause = FIRST_PAUSE
        while True:
            member = self._client.member
            try:
                if await self._watch():
                    pause = FIRST_PAUSE
            except (StoreError, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                log.debug("the watch broke, it is made anew: %s", error)
                self._client.leave(member)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _watch(self) -> bool:
        """Watch until the stream ends; true when it had begun."""
        call = self._client.call(WATCH)(metadata=await self._client.metadata())
        begun = False
        try:
            wanted = message("WatchCreateRequest")(
                key=self._folder, range_end=after(self._folder), start_revision=self._from
            )
            await call.write(message("WatchRequest")(create_request=wanted))
            while (response := await call.read()) is not grpc.aio.EOF:
                if response.created and not self._from:
                    self._from = response.header.revision + 1
                    self.arrived()
                if response.canceled:
                    self._lost(response)
                    break
                begun = begun or response.created
                self.watches += response.created
                self._hear(response.events)
        finally:
            with contextlib.suppress(asyncio.InvalidStateError):
                call.cancel()
        return begun

    def _hear(self, events: list[Any]) -> None:
        for event in events:
            self._from = max(self._from, event.kv.mod_revision + 1)
        woken = False
        for event in events:
            what = event.kv.key[len(self._folder) :]
            if what.startswith((SUBMITTED, CHANGED)):
                woken = True
            else:
                self._on_other(what, event.kv.value)
        if woken:
            self.arrived()

    def _lost(self, response: Any) -> None:
        """The server ended the watch: if the log begins later than we want to go on, look and begin from now."""
        if response.compact_revision:
            self._from = 0
