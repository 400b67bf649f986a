"""Changes of which nobody knows yet whether they took effect: the answer was lost, or a transaction is still open."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenure.lifecycle import took_effect
from tenure.task import Task

if TYPE_CHECKING:
    from tenure.stores.base import Store

LIMIT = 10_000
PATIENCE = 600.0
"""Seconds after which a change that did not show has not taken effect."""
PIECE = 500


class Doubts:
    """Remembers such changes, and asks the store about them when there is time."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], tuple[Task, float]] = {}

    def add(self, tasks: Iterable[Task]) -> None:
        """Nobody knows yet whether these versions were written."""
        since = time.monotonic()
        for task in tasks:
            if len(self._open) < LIMIT:
                self._open[task.id, task.version] = (task, since)

    async def resolved(self, store: Store) -> list[Task]:
        """Those that were written, as far as a bounded look tells."""
        look = list(self._open.items())[:PIECE]
        if not look:
            return []
        found = []
        long_ago = time.monotonic() - PATIENCE
        stored = await store.get([task.id for _, (task, _) in look])
        for (key, (task, since)), now in zip(look, stored, strict=True):
            if now is not None and took_effect(task, now):
                found.append(task)
            elif since > long_ago:
                # Behind the others, so that those which never show do not hide the rest.
                self._open[key] = self._open.pop(key)
                continue
            self._open.pop(key, None)
        return found
