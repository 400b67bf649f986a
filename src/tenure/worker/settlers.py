"""A settler for each part of the store, so that a part that is away holds up nobody's endings but its own."""

from __future__ import annotations

import asyncio

from tenure.stores.base import Store
from tenure.worker.attempt import Attempt, Rule
from tenure.worker.backoff import Outage
from tenure.worker.settler import OnSettled, Settler


class Settlers:
    """Does what a settler does, by the parts of a store."""

    def __init__(self, store: Store, on_settled: OnSettled) -> None:
        self._store = store
        self._settlers = {part: Settler(part, on_settled, _Silence()) for part in store.parts()}

    @property
    def unsettled(self) -> int:
        """How many endings have not been written."""
        return sum(settler.unsettled for settler in self._settlers.values())

    def put(self, attempt: Attempt, rule: Rule) -> None:
        """Hand in an attempt that is over."""
        self._settlers[self._store.part_of(attempt.task)].put(attempt, rule)

    async def drain(self, patience: float) -> None:
        """Return when everything handed in is written, or when some part has been away for too long."""
        await asyncio.gather(*(settler.drain(patience) for settler in self._settlers.values()))


class _Silence(Outage):
    """A part tells by itself that it is away."""

    def failed(self, work: str, error: BaseException) -> None:
        """Say nothing."""

    def worked(self, work: str) -> None:
        """Say nothing."""


def settler_of(store: Store, on_settled: OnSettled, outage: Outage) -> Settler | Settlers:
    """One settler, or one for each part."""
    return Settler(store, on_settled, outage) if len(store.parts()) == 1 else Settlers(store, on_settled)
