"""Group commit: calls made at the same time become one call on the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")
Answer = TypeVar("Answer")


BYTES = 64_000_000
"""What is sent at once: servers cut off whoever sends much more (PostgreSQL at 1 GB), and it takes its time."""


def first_batch(sizes: Iterable[int], count: int, room: int) -> int:
    """How many of those that wait go together: up to `count`, of up to `room` bytes in all, and never none.

    >>> first_batch([4, 4, 4], count=10, room=8), first_batch([9, 1], count=10, room=8)
    (2, 1)
    """
    number = 0
    for size in islice(sizes, count):
        room -= size
        if number and room < 0:
            break
        number += 1
    return number


def _weightless(_: object) -> int:
    return 0


class Batcher(Generic[Item, Answer]):
    """Sends what waits in one batch. The first call goes at once; what arrives meanwhile rides on the next.

    A batch has up to `limit` items, of up to `room` bytes in all.

    Nobody gets an answer before the batch that carried the item has been answered. A caller
    that gives up waiting takes nothing back: its item may have been sent already. Each event loop has
    a line of its own: no loop can answer, or go on after, another one.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Answer]]],
        limit: int = 1000,
        size: Callable[[Item], int] = _weightless,
        room: int = BYTES,
    ) -> None:
        self._send = send
        self._limit, self._size, self._room = limit, size, room
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line[Item, Answer]] = WeakKeyDictionary()

    async def __call__(self, item: Item) -> Answer:
        """Hand in an item and wait for its answer."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line(self._send, self._first)
        answer: asyncio.Future[Answer] = loop.create_future()
        line.join(item, answer)
        return await answer

    def _first(self, waiting: Sequence[tuple[Item, object]]) -> int:
        return first_batch((self._size(item) for item, _ in waiting), self._limit, self._room)

    async def drain(self) -> None:
        """Return when everything that was handed in on this event loop has been answered."""
        line = self._lines.get(asyncio.get_running_loop())
        if line is not None and line.sender is not None:
            await asyncio.wait([line.sender])


class _Line(Generic[Item, Answer]):
    """Those who wait on one event loop."""

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Answer]]],
        first: Callable[[Sequence[tuple[Item, object]]], int],
    ) -> None:
        self._send = send
        self._first = first
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
                number = self._first(self._waiting)
                batch, self._waiting = self._waiting[:number], self._waiting[number:]
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
