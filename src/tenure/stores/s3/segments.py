"""The objects that hold tasks, as they are in memory; `bodies` has them as JSON.

A segment holds open tasks (and ended ones until they are tidied away), a pack holds ended ones.
Both are the same kind of object.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec

from tenure.task import Task
from tenure.times import Moment

replace = msgspec.structs.replace
Order = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
"""Nanoseconds of a time, nearly; one that was harmed must not lead all later ones astray."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A task, with the number that tells when it was submitted."""

    order: Order
    task: Task


class Unread(NamedTuple):
    """A record that nobody can read, as it stands there: its id, if that is legible, and what is wrong."""

    label: str
    why: str
    entry: msgspec.Raw


class Segment(msgspec.Struct, frozen=True):
    """One version of an object with tasks.

    `arriving` names the tasks that are on their way here, and where from. In a segment such a
    task counts only once the place that it comes from says in `moved` that it went here. In a
    pack it counts once it is gone from there. A `closed` pack takes no more. What nobody can read
    (`unread`) and what only a newer version knows (`unknown`) is written again as it was.
    """

    name: str
    etag: str
    entries: Mapping[str, Entry]
    moved: Mapping[str, str] = {}
    arriving: Mapping[str, str] = {}
    since: Moment | None = None
    closed: bool = False
    unread: tuple[Unread, ...] = ()
    unknown: Mapping[str, msgspec.Raw] = {}

    @property
    def over(self) -> bool:
        """Whether nothing in it is open any more, as far as anybody can tell."""
        return not self.arriving and not self.unread and all(entry.task.status.ended for entry in self.entries.values())

    @property
    def empty(self) -> bool:
        """Whether it holds no task, be it legible or not."""
        return not self.entries and not self.unread

    def tasks(self) -> Iterator[Entry]:
        """The tasks that are here for certain."""
        if not self.arriving:
            return iter(self.entries.values())
        return (entry for task_id, entry in self.entries.items() if task_id not in self.arriving)

    def entry(self, task_id: str) -> Entry | None:
        """The task, if it is here for certain."""
        return None if task_id in self.arriving else self.entries.get(task_id)

    def with_tasks(self, tasks: Iterable[Task]) -> Segment:
        """The next version, with newer versions of some tasks."""
        entries = dict(self.entries)
        for task in tasks:
            entries[task.id] = Entry(entries[task.id].order, task)
        return replace(self, entries=entries)

    def without(self, ids: Iterable[str]) -> Segment:
        entries = dict(self.entries)
        for task_id in ids:
            entries.pop(task_id, None)
        return replace(self, entries=entries)


def fresh_nonce() -> str:
    """What no other body has."""
    return secrets.token_hex(12)
