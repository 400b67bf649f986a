"""Group commit: calls made at the same time become one call on the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Sends what waits in one batch. The first call goes at once; what arrives meanwhile rides on the next.

    Nobody gets an answer before the batch that carried the item has been answered. A caller
    that gives up waiting takes nothing back: its item may have been sent already. Each event loop has
    a line of its own: no loop can answer, or go on after, another one.
    """

    def __init__(self, send: Callable[[list[Item]], Awaitable[Sequence[Answer]]], limit: int = 1000) -> None:
        self._send = send
        self._limit = limit
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line[Item, Answer]] = WeakKeyDictionary()

    async def __call__(self, item: Item) -> Answer:
        """Hand in an item and wait for its answer."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line(self._send, self._limit)
        answer: asyncio.Future[Answer] = loop.create_future()
        line.join(item, answer)
        return await answer

    async def drain(self) -> None:
        """Return when everything that was handed in on this event loop has been answered."""
        line = self._lines.get(asyncio.get_running_loop())
        if line is not None and line.sender is not None:
            await asyncio.wait([line.sender])


class _Line(Generic[Item, Answer]):
    """Those who wait on one event loop."""

    def __init__(self, send: Callable[[list[Item]], Awaitable[Sequence[Answer]]], limit: int) -> None:
        self._send = send
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self.sender: asyncio.Task[None] | None = None

    def join(self, item: Item, answer: asyncio.Future[Answer]) -> None:
        """Wait for an answer, and see to it that somebody sends."""
        self._waiting.append((item, answer))
        if self.sender is None:
            self.sender = asyncio.create_task(self._run(), name="tenure-batcher")

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
                await self._deliver(batch)
        finally:
            self.sender = None

    async def _deliver(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._send([item for item, _ in batch])
            pairs = list(zip(batch, answers, strict=True))
        except BaseException as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, answer), value in pairs:
            if not answer.done():
                answer.set_result(value)
