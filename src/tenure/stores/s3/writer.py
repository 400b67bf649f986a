"""Changes of segments: all that wait for one segment are one write.

A step looks at the current version and says what comes next. When another process was faster,
everything is read again and every step decides again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from tenure.errors import DamagedRecord
from tenure.stores.s3.bodies import decode, encode
from tenure.stores.s3.bucket import Bucket, Unchanged, Written
from tenure.stores.s3.damage import Damage
from tenure.stores.s3.mirror import Mirror
from tenure.stores.s3.segments import Segment, fresh_nonce, replace

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5
PATIENCE = 1.0
"""Seconds that a reader waits for the answer to a write of this process, rather than read what it has written."""

Step = Callable[[Segment, bool], tuple[Segment, T]]
"""(version, in doubt) -> next version and answer. In doubt, an earlier write of the same step may have taken effect."""


class Gone(Exception):
    """The segment is not there any more."""


class Refused(Exception):
    """A step has nothing to do here. On a version that may be outdated, it looks again before it says so."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.answer = answer


class Departure(Protocol):
    """Tasks that have to leave with a write; see `leaving`."""

    after: Segment

    async def finish(self, written: Segment | None) -> None:
        """The write took effect, or another was faster."""


class Writer:
    """The one place in a process that writes segments and packs which are there already."""

    def __init__(self, bucket: Bucket, mirror: Mirror) -> None:
        self._bucket, self._mirror = bucket, mirror
        self._waiting: dict[str, list[tuple[Step[Any], asyncio.Future[Any]]]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._sent: dict[str, asyncio.Future[None]] = {}
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self.conflicts = 0
        self.damage = Damage()
        self.leave: Callable[[Segment], Any] | None = None

    async def change(self, name: str, step: Step[T]) -> T:
        """The answer of the step, when its change is stored. Raises `Gone` when there is no such object."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(name)
        if waiting is None:
            self._waiting[name] = [(step, answer)]
            running = asyncio.create_task(self._run(name), name="tenure-s3-writer")
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        else:
            waiting.append((step, answer))
        return await answer

    async def settled(self) -> None:
        """Return when nothing is being written."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def answered(self, names: Iterable[str]) -> bool:
        """Wait, not for long, for the answers to writes of these that are on their way; whether there were any."""
        sent = {self._sent[name] for name in names if name in self._sent}
        if sent:
            await asyncio.wait(sent, timeout=PATIENCE)
        return bool(sent)

    @contextlib.contextmanager
    def _on_its_way(self, name: str) -> Iterator[None]:
        answered = self._sent[name] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            answered.set_result(None)
            if self._sent.get(name) is answered:
                del self._sent[name]

    async def create(self, segment: Segment) -> Segment | None:
        """Write a new object; None when there is one of this name."""
        nonce = fresh_nonce()
        with self._on_its_way(segment.name):
            etag = await self._bucket.create(segment.name, encode(segment, nonce), nonce)
            return None if etag is None else self._mirror.put(replace(segment, etag=etag))

    async def read(self, name: str) -> Segment | None:
        """The object as it is now; None when there is none. One that cannot be read is mentioned, and an error."""
        known = self._mirror.get(name)
        found = await self._bucket.get(name, None if known is None else known.etag)
        meanwhile = self._mirror.get(name)
        if meanwhile is not None and meanwhile is not known:
            # A write of this process has overtaken the answer.
            return meanwhile
        if isinstance(found, Unchanged):
            return known
        if found is None:
            self._mirror.drop(name)
            return None
        try:
            segment = decode(name, found.etag, found.body)
        except DamagedRecord as damage:
            self._mirror.drop(name)
            self.damage.found(name, found.etag, str(damage))
            raise
        self.damage.mended(name)
        for each in segment.unread:
            self.damage.mention(each.label, each.why)
        if segment.entries:
            self._bucket.client.clock.has_been(max(entry.task.updated_at for entry in segment.entries.values()))
        return self._mirror.put(segment, None if known is None else known.etag)

    async def delete(self, segment: Segment) -> bool:
        """Delete this very version."""
        deleted = await self._bucket.delete(segment.name, segment.etag)
        if deleted:
            self._mirror.deleted(segment)
        else:
            self._mirror.drop(segment.name)
        return deleted

    async def _run(self, name: str) -> None:
        while batch := self._waiting[name]:
            self._waiting[name] = []
            try:
                with self._on_its_way(name):
                    await self._write(name, batch)
            except BaseException as error:
                # What was sent may or may not be stored: whoever comes next reads first.
                self._mirror.drop(name)
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                if not isinstance(error, Exception):
                    raise
        del self._waiting[name]

    async def _write(self, name: str, batch: list[tuple[Step[Any], asyncio.Future[Any]]]) -> None:
        segment, fresh, attempt, doubtful = self._mirror.get(name), False, 0, False
        while True:
            if segment is None:
                segment, fresh = await self.read(name), True
            if segment is None:
                raise Gone(name)
            current, answers, refused = segment, [], False
            for step, _ in batch:
                answer: Any
                try:
                    current, answer = step(current, doubtful)
                except Refused as refusal:
                    answer, refused = refusal.answer, True
                except Exception as error:
                    answer = error
                answers.append(answer)
            if refused and not fresh:
                segment = None
                continue
            written = Written(segment.etag) if current is segment else await self._replace(segment, current)
            if written.etag is None:
                self.conflicts += 1
                await asyncio.sleep(self._random.uniform(0, min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)))
                segment, attempt, doubtful = None, attempt + 1, doubtful or written.unsure
                continue
            _deliver(batch, answers)
            return

    async def _replace(self, before: Segment, after: Segment) -> Written:
        departure: Departure | None = None if self.leave is None else await self.leave(after)
        if departure is not None:
            after = departure.after
        nonce = fresh_nonce()
        written = await self._bucket.try_replace(before.name, encode(after, nonce), nonce, before.etag)
        stored = None if written.etag is None else self._mirror.put(replace(after, etag=written.etag), before.etag)
        if departure is not None:
            await departure.finish(stored)
        return written


def _deliver(batch: list[tuple[Step[Any], asyncio.Future[Any]]], answers: list[Any]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
