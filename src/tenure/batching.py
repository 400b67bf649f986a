"""Group commit: calls made at the same time become one call on the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Sends what waits in one batch. The first call goes at once; what arrives meanwhile rides on the next.

    Nobody gets an answer before the batch that carried the item has been answered. A caller
    that gives up waiting takes nothing back: its item may have been sent already.
    """

    def __init__(self, send: Callable[[list[Item]], Awaitable[Sequence[Answer]]], limit: int = 1000) -> None:
        self._send = send
        self._limit = limit
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Answer:
        """Hand in an item and wait for its answer."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name="tenure-batcher")
        return await answer

    async def drain(self) -> None:
        """Return when everything that was handed in has been answered."""
        if self._sender is not None:
            await asyncio.wait([self._sender])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
                await self._deliver(batch)
        finally:
            self._sender = None

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
