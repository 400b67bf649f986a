"""What nobody can read: it stays where it is, is looked at once a version, and somebody is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tenure.stores.s3.bucket import Listed

log = logging.getLogger("tenure")


class Damage:
    """Objects that cannot be read, each with the tag of that version, and records within readable ones."""

    def __init__(self) -> None:
        self._objects: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self.tell: Callable[[str, str | None], object] = _nobody
        """Called with a name and why it cannot be read; with None when it can be read again."""

    def found(self, name: str, etag: str, why: str) -> None:
        """A whole object cannot be read."""
        self._objects[name] = etag
        self.mention(name, why)

    def mention(self, name: str, why: str) -> None:
        """Say once what cannot be read, and why."""
        if self._told.get(name) != why:
            self._told[name] = why
            log.error("%s", why)
            self.tell(name, why)

    def mended(self, name: str) -> None:
        """An object can be read (again)."""
        if name in self._objects:
            del self._objects[name]
            self._told.pop(name, None)
            self.tell(name, None)

    def has(self, name: str) -> bool:
        """Whether the last version of an object could not be read."""
        return name in self._objects

    def knows(self, listed: Listed) -> bool:
        """Whether it is known that this very version cannot be read."""
        return self._objects.get(listed.name) == listed.etag

    def why(self, name: str) -> str | None:
        """Why an object, or the record of a task, cannot be read."""
        return self._told.get(name)

    def names(self) -> list[str]:
        """Everything that could not be read: names of objects, and ids of tasks."""
        return sorted(self._told)


def _nobody(*_: object) -> None:
    """Nobody wants to know."""
