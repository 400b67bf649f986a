"""Pages of several shards as one, in one order, with a cursor that stays valid while tasks come and go.

The cursor says for each shard where its last page began and which task of it was the last one taken. The next page
begins there again and leaves out what comes up to that task, so nothing is lost or repeated when pages of different
shards do not end together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from tenure.stores.base import Page
from tenure.stores.cursors import not_of_a_listing
from tenure.stores.sharded.shard import Shard
from tenure.stores.sharded.together import all_of, those_there
from tenure.task import Task
from tenure.times import to_text

Key = tuple[str, str, str]
Fetch = Callable[[Shard, str | None], Awaitable[Page]]


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one shard has been read."""

    begin: str | None = None
    last: Key | None = None


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far each shard has been read, the last task of all, and whether that was all."""

    shards: list[Mark]
    last: Key | None = None
    done: bool = False


class Listing:
    """One order over several shards: by end or submit, as each of them has it."""

    def __init__(self, fetch: Fetch, *, by_end: bool, oldest: bool, limit: int) -> None:
        self.fetch = fetch
        self.by_end, self.oldest, self.limit = by_end, oldest, limit

    async def page(self, shards: Sequence[Shard], text: str | None) -> Page:
        """The next page of those that can be reached."""
        cursor = read_cursor(text, len(shards))
        if text is not None and cursor.last is not None and bool(cursor.last[0]) != self.by_end:
            raise not_of_a_listing(text)
        taken, following = self._merge(cursor, await those_there(shards, lambda shard: self._read(shard, cursor)))
        return Page(taken, None if following.done else encode_cursor(following))

    async def step(self, shards: Sequence[Shard], cursor: Cursor) -> tuple[list[Task], Cursor]:
        """The next tasks of all shards, and where to go on."""
        reads = await all_of(shards, lambda shard: self._read(shard, cursor))
        return self._merge(cursor, dict(enumerate(reads)))

    def _merge(self, cursor: Cursor, reads: dict[int, _Read]) -> tuple[list[Task], Cursor]:
        marks = list(cursor.shards)
        taken: list[Task] = []
        choose = min if self.oldest else max
        while len(taken) < self.limit:
            heads = {number: self._key(read.tasks[0]) for number, read in reads.items() if read.tasks}
            if not heads:
                break
            number = choose(heads, key=heads.__getitem__)
            taken.append(reads[number].take())
            marks[number] = Mark(reads[number].begin, heads[number])
        done = not any(read.tasks or read.more for read in reads.values())
        return taken, Cursor(marks, self._key(taken[-1]) if taken else cursor.last, done)

    def _key(self, task: Task) -> Key:
        end = to_text(task.ended_at) if self.by_end and task.ended_at is not None else ""
        return end, to_text(task.created_at), task.id

    async def _read(self, shard: Shard, cursor: Cursor) -> _Read:
        """As many tasks as a page may have, beginning after those that were taken."""
        mark = cursor.shards[shard.number]
        read = _Read(mark.begin)
        after = mark.last or cursor.last
        while True:
            page = await self.fetch(shard, read.end)
            tasks = page.tasks
            if after is not None:
                tasks, passed = self._beyond(tasks, after)
                after = None if passed else after
            read.add(tasks, page.cursor)
            if not read.more or len(read.tasks) >= self.limit:
                return read

    def _beyond(self, tasks: list[Task], after: Key) -> tuple[list[Task], bool]:
        """What comes after the task with this key, or after its place if it is gone; whether that was passed."""
        keys = [self._key(task) for task in tasks]
        if after in keys:
            return tasks[keys.index(after) + 1 :], True
        start = 0
        while start < len(keys) and (keys[start] <= after if self.oldest else keys[start] >= after):
            start += 1
        return tasks[start:], start < len(keys)


class _Read:
    """What was read of one shard: tasks that have not been taken, and where the page of the next one begins."""

    def __init__(self, begin: str | None) -> None:
        self.begin = self.end = begin
        self.more = True
        self.tasks: list[Task] = []
        self._pages: list[tuple[int, str | None]] = []

    def add(self, tasks: list[Task], cursor: str | None) -> None:
        if tasks:
            self._pages.append((len(self.tasks) + len(tasks), self.end))
        self.tasks += tasks
        self.more, self.end = cursor is not None, cursor or self.end

    def take(self) -> Task:
        self._pages = [(left - 1, begin) for left, begin in self._pages]
        self.begin = next(begin for left, begin in self._pages if left >= 0)
        return self.tasks.pop(0)


def encode_cursor(cursor: Cursor) -> str:
    """The cursor as text."""
    return msgspec.json.encode(cursor).decode()


def read_cursor(text: str | None, count: int) -> Cursor:
    """The cursor that came with the last page."""
    if text is None:
        return Cursor([Mark()] * count)
    try:
        cursor: Any = msgspec.json.decode(text, type=Cursor)
    except (msgspec.MsgspecError, UnicodeError):
        cursor = None
    if cursor is None or len(cursor.shards) != count:
        raise not_of_a_listing(text)
    return cursor  # type: ignore[no-any-return]
