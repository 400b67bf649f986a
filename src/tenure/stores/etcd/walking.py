"""Walking through an index in either direction.

etcd reads forwards as far as it is asked to, but backwards only by reading everything and sorting it.
So a walk back looks at windows from the end, each wider than the one before, and asks for the last keys of one window.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import after, moment, place_of
from tenure.stores.etcd.requests import walk
from tenure.times import before, from_text

WIDER = 4
SECONDS, REVISIONS = 0.25, 4
"""How wide the first window is, of an index by time and of one by place."""
_FIRST = b""


class Walk:
    """A walk through indexes that are sorted alike, as if they were one."""

    def __init__(
        self, db: Database, folders: Sequence[bytes], start: bytes | None, *, oldest: bool, now: datetime
    ) -> None:
        self._db, self._folders, self._oldest, self._now = db, folders, oldest, now
        self._by_time = folders[0].startswith(db.layout.folder(b"ended"))
        self._at = start
        self._width = 1
        self._over = False

    async def next(self, count: int) -> list[bytes]:
        """The next places, each with the id behind it; none when that was all."""
        if self._over:
            return []
        return await (self._forwards(count) if self._oldest else self._backwards(count))

    async def _forwards(self, count: int) -> list[bytes]:
        starts = [folder if self._at is None else folder + self._at + b"\0" for folder in self._folders]
        found = await self._read(
            [
                walk(start, after(folder), count, keys_only=True)
                for start, folder in zip(starts, self._folders, strict=True)
            ]
        )
        ranks = sorted(found)[:count]
        self._over = len(ranks) < count
        self._at = ranks[-1] if ranks else self._at
        return ranks

    async def _backwards(self, count: int) -> list[bytes]:
        if (few := await self._all_of_few(count)) is not None:
            self._over = True
            return few
        found: list[bytes] = []
        while len(found) < count and not self._over:
            start = await self._window()
            part = await self._read(
                [
                    walk(folder + start, end, count - len(found), keys_only=True, backwards=True)
                    for folder, end in zip(self._folders, self._ends(), strict=True)
                ]
            )
            part = sorted(part, reverse=True)[: count - len(found)]
            found += part
            if len(found) < count:
                # The window is empty now: go on before it, and look further.
                self._at, self._over = start, start == _FIRST
                self._width *= WIDER
            else:
                self._at = found[-1]
        return found

    async def _all_of_few(self, count: int) -> list[bytes] | None:
        """Everything that is left, when that is not more than was asked for."""
        found = await self._read(
            [
                walk(folder, end, count + 1, keys_only=True)
                for folder, end in zip(self._folders, self._ends(), strict=True)
            ]
        )
        return sorted(found, reverse=True) if len(found) <= count else None

    def _ends(self) -> list[bytes]:
        return [after(folder) if self._at is None else folder + self._at for folder in self._folders]

    async def _window(self) -> bytes:
        """Where the window begins that ends where the walk has come to."""
        if self._by_time:
            end = self._now + timedelta(seconds=1) if self._at is None else from_text(self._at[:27].decode())
            start = before(end, timedelta(seconds=min(SECONDS * self._width, 1e10)))
            return _FIRST if start.year == 1 else moment(start)
        if self._at is None:
            if not self._db.client.revision:
                await self._db.read([walk(self._folders[0], after(self._folders[0]), 1, keys_only=True)])
            revision = self._db.client.revision + 1
        else:
            revision = int(self._at[:13], 16)
        revision -= REVISIONS * self._width
        return place_of(revision, 0) if revision > 0 else _FIRST

    async def _read(self, ops: list[object]) -> list[bytes]:
        found = await self._db.read(ops)
        return [kv.key[len(folder) :] for folder, kvs in zip(self._folders, found, strict=True) for kv in kvs]
