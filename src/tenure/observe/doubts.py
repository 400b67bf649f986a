"""Changes of which nobody knows yet whether they took effect: the answer was lost, or a transaction is still open."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tenure import payload
from tenure.batching import first_batch
from tenure.errors import DamagedRecord, StoreUnavailable
from tenure.lifecycle import took_effect
from tenure.task import Event, Task

if TYPE_CHECKING:
    from tenure.stores.base import Store

log = logging.getLogger("tenure.observe")

LIMIT = 10_000
PATIENCE = 600.0
"""Seconds after which a change that did not show has not taken effect."""
PIECE, ROOM = 500, 16_000_000
"""How many tasks the store is asked for at once, and bytes of their inputs."""


class Doubt(NamedTuple):
    """One such change, without its input: that is in the store if it took effect."""

    change: Task
    since: float
    size: int

    @property
    def key(self) -> tuple[str, Event]:
        """What tells it from others, also from those that were made again when no answer came."""
        return self.change.id, self.change.history[-1]

    def whole(self, stored: Task) -> Task:
        """The task as the change made it."""
        return replace(self.change, input_json=stored.input_json)


class Doubts:
    """Remembers such changes, and asks the store about them when there is time."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, Event], Doubt] = OrderedDict()
        self._forgotten = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, tasks: Iterable[Task]) -> None:
        """Nobody knows yet whether these versions were written."""
        since = time.monotonic()
        for task in tasks:
            doubt = Doubt(replace(task, input_json=payload.NULL), since, payload.size(task.input_json))
            self._open[doubt.key] = doubt
            if len(self._open) > LIMIT:
                # The one that has not shown for longest is the likeliest to have been rolled back.
                self._open.popitem(last=False)
                self._forgotten += 1

    async def resolve(self, store: Store, tell: Callable[[list[Task]], None]) -> None:
        """Tell what the store shows of all that are open now. A part of it that is away holds up no other."""
        if self._forgotten:
            words = "%d changes in doubt were forgotten, because there were more than %d: if they took effect, no event tells of them"
            log.warning(words, self._forgotten, LIMIT)
            self._forgotten = 0
        parts: dict[Store, list[Doubt]] = {}
        for doubt in self._open.values():
            parts.setdefault(store.part_of(doubt.change), []).append(doubt)
        looks = [self._look(part, doubts, tell) for part, doubts in parts.items()]
        for error in await asyncio.gather(*looks, return_exceptions=True):
            if error is not None:
                raise error

    async def _look(self, part: Store, doubts: list[Doubt], tell: Callable[[list[Task]], None]) -> None:
        """Piece by piece, so that what one shows is told whatever becomes of the next."""
        while doubts:
            number = first_batch((doubt.size for doubt in doubts), PIECE, ROOM)
            piece, doubts = doubts[:number], doubts[number:]
            try:
                stored = await _read(part, [doubt.change.id for doubt in piece])
            except StoreUnavailable:
                # It shows nothing yet. Those that wait for it grow old all the same.
                piece, doubts = piece + doubts, []
                stored = [None] * len(piece)
            tell(self._shown(piece, stored))

    def _shown(self, piece: list[Doubt], stored: list[Task | None]) -> list[Task]:
        """What has taken effect, which nobody else is told of. Where another change has taken the place, there is no more doubt."""
        found = []
        long_ago = time.monotonic() - PATIENCE
        for doubt, task in zip(piece, stored, strict=True):
            if self._open.get(doubt.key) is not doubt:
                # Somebody else has asked meanwhile.
                continue
            if task is not None and took_effect(doubt.change, task):
                found.append(doubt.whole(task))
            elif doubt.since > long_ago and (task is None or task.version < doubt.change.version):
                # Behind the others, so that those which never show do not hide the rest from whoever has little time.
                self._open.move_to_end(doubt.key)
                continue
            del self._open[doubt.key]
        return found


async def _read(store: Store, ids: list[str]) -> list[Task | None]:
    """These tasks, as far as their records can be read."""
    try:
        return list(await store.get(ids))
    except DamagedRecord:
        if len(ids) == 1:
            return [None]
        half = len(ids) // 2
        return [*await _read(store, ids[:half]), *await _read(store, ids[half:])]
