"""What the clients of a run saw: what they asked for, what they were answered, which handlers began and how they ended.

A journal and the tasks as the store has them at the end are all that the checker reads. `number` is the place of an
entry in the order in which things were noted; times are the store's.
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class Submitted(msgspec.Struct):
    """A submit. Its answer may be missing: then the task may or may not be there."""

    number: int
    name: str
    """What tells this job from all others; the handler of its task sees it, too."""
    key: str | None = None
    """Submits with the same word here ask for the same task: a key with its scope, a slot, a chosen id."""
    key_until: datetime | None = None
    """From when on the key may stand for a new task."""
    ordering_key: str | None = None
    most: int = 0
    """How many executions the producer and the worker's policy allow."""
    answered: int | None = None
    refused: bool = False
    """It was answered that nothing was created."""
    task_id: str | None = None
    created: bool = False
    due: datetime | None = None
    deadline: datetime | None = None


class Started(msgspec.Struct, frozen=True):
    """A handler began."""

    number: int
    task_id: str
    name: str
    fence: int
    at: datetime | None = None
    worker: str | None = None


class Finished(msgspec.Struct, frozen=True):
    """A handler ended, in its own words: `returned`, `failed`, `rescheduled` or `interrupted`."""

    number: int
    task_id: str
    fence: int
    how: str
    delay: float = 0
    extended: float = 0


class Held(msgspec.Struct, frozen=True):
    """A worker was answered, to a claim or a renewal, that it holds a task up to a moment."""

    number: int
    task_id: str
    fence: int
    until: datetime
    worker: str


class Wrote(msgspec.Struct, frozen=True):
    """A worker was answered that its version of a task stands."""

    number: int
    task_id: str
    event: int
    what: str
    worker: str


class Operated(msgspec.Struct):
    """An operator's call; without an answer it may or may not have had an effect."""

    number: int
    what: str
    task_id: str
    answered: int | None = None
    refused: bool = False
    status: str | None = None


class Journal:
    """The entries of a run, by kind, each in its order."""

    def __init__(self) -> None:
        self.submits: list[Submitted] = []
        self.starts: list[Started] = []
        self.finishes: list[Finished] = []
        self.holds: list[Held] = []
        self.writes: list[Wrote] = []
        self.operations: list[Operated] = []
        self._count = 0

    def next(self) -> int:
        """The number of the next entry."""
        self._count += 1
        return self._count
