"""Changes of which nobody knows yet whether they took effect: the answer was lost, or a transaction is still open."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tenure import payload
from tenure.batching import first_batch
from tenure.errors import DamagedRecord
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

    def pieces(self) -> Iterator[list[Doubt]]:
        """All that are open now, in the pieces in which to ask for them."""
        if self._forgotten:
            words = "%d changes in doubt were forgotten, because there were more than %d: if they took effect, no event tells of them"
            log.warning(words, self._forgotten, LIMIT)
            self._forgotten = 0
        waiting = list(self._open.values())
        while waiting:
            number = first_batch((doubt.size for doubt in waiting), PIECE, ROOM)
            yield waiting[:number]
            waiting = waiting[number:]

    async def resolved(self, store: Store) -> list[Task]:
        """What the store shows of all of them."""
        return [task for piece in self.pieces() for task in await self.shown(piece, store)]

    async def shown(self, piece: Sequence[Doubt], store: Store) -> list[Task]:
        """What the store shows of a piece. Nobody else is told of it. Where another change has taken the place, there is no more doubt."""
        found = []
        long_ago = time.monotonic() - PATIENCE
        for doubt, stored in zip(piece, await _read(store, [doubt.change.id for doubt in piece]), strict=True):
            if self._open.get(doubt.key) is not doubt:
                # Somebody else has asked meanwhile.
                continue
            if stored is not None and took_effect(doubt.change, stored):
                found.append(doubt.whole(stored))
            elif doubt.since > long_ago and (stored is None or stored.version < doubt.change.version):
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
