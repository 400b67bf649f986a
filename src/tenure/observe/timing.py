"""Times the calls of a store, for those who want to know."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from tenure.errors import StoreError, TenureError
from tenure.observe.events import Events, Outcome
from tenure.stores.base import Store
from tenure.task import Task

OPERATIONS = (
    "insert", "insert_within", "claim", "swap", "renew", "get", "find", "overdue", "count_overdue", "running_since", "count", "due", "prune", "forget",
    "dump", "restore", "reserved", "put_note", "notes", "begin",
)  # fmt: skip
"""What is a request. Asking for the time or waiting for news is none."""


class TimedStore:
    """A store whose calls are timed; all else is the store's own."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store, self._events = store, events
        self._parts: dict[Store, Store] = {store: cast("Store", self)}
        for operation in OPERATIONS:
            setattr(self, operation, self._timed(operation, getattr(store, operation)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._store

    def __hash__(self) -> int:
        """Whoever keeps something by store finds it again when that has become timed."""
        return hash(self._store)

    def parts(self) -> Sequence[Store]:
        """The parts are timed too."""
        return [self._part(part) for part in self._store.parts()]

    def part_of(self, task: Task) -> Store:
        """The part that keeps this task."""
        return self._part(self._store.part_of(task))

    def _part(self, part: Store) -> Store:
        if part not in self._parts:
            self._parts[part] = timed(part, self._events)
        return self._parts[part]

    def twin(self) -> Store:
        """The twin is timed too."""
        twin = self._store.twin()
        return cast("Store", self) if twin is self._store else timed(twin, self._events)

    def _timed(self, operation: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed_call(*arguments: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            # What nobody waits for any longer was no answer: a store that hangs is given up so.
            outcome: Outcome = "cancelled"
            try:
                answer = await call(*arguments, **keywords)
                outcome = "answered"
            except Exception as error:
                refused = isinstance(error, TenureError) and not isinstance(error, StoreError)
                outcome = "answered" if refused else "failed"
                raise
            else:
                return answer
            finally:
                self._events.store_called(operation, time.perf_counter() - start, outcome)

        return timed_call


def timed(store: Store, events: Events) -> Store:
    """The same store, with its calls told to the subscribers."""
    return cast("Store", TimedStore(store, events))
