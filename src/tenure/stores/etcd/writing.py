"""Transactions that are counted, and of which it is always known whether they took place.

Every handle has a few slots: keys that nobody else writes while it lives. Each transaction expects
its slot as it left it and writes it anew, with a number of its own and with what the handle's
transactions have changed in the counts. So the counts are always right, nobody waits for another's counter,
and a transaction whose answer was lost is found again: either its number stands in the slot, or the
slot is written over, after which that transaction can never take place.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tenure.errors import StoreFull, StoreUnavailable
from tenure.stores.base import Count
from tenure.stores.etcd.client import TXN, Client, Patience, Unanswered
from tenure.stores.etcd.layout import Layout, after
from tenure.stores.etcd.requests import Txn, answers, delete, get, nested, put, unmodified, walk
from tenure.task import Task, TaskStatus
from tenure.times import SECOND

Lane = tuple[str, str, str]
Clock = Callable[[], datetime | None]

SLOTS = 16
"""Transactions that one handle has on their way at the same time."""
ABANDONED_AFTER = 3600 * SECOND
TOTAL = b"total"


class SlotValue(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a slot: the number of the last transaction, its time, and the changes so far."""

    number: str
    at: datetime | None
    counts: list[tuple[str, str, str, int]]


class Slot:
    """One slot of this handle, as it is now."""

    def __init__(self, key: bytes) -> None:
        self.key, self.revision = key, 0
        self.counts: Counter[Lane] = Counter()


class Outcome(NamedTuple):
    """What became of a transaction. The answers are None when they were lost and the transaction was not."""

    done: bool
    revision: int
    answers: list[Any] | None


class Batch:
    """A transaction in the making: each key is written or deleted once."""

    def __init__(self) -> None:
        self.compares: list[Any] = []
        self.puts: dict[bytes, bytes] = {}
        self.deletes: set[bytes] = set()
        self.reads: list[Any] = []
        self.counts: Counter[Lane] = Counter()

    def replace(self, old: dict[bytes, bytes], new: dict[bytes, bytes]) -> None:
        """Delete what is not there any more, write what is new or differs."""
        self.deletes.update(old.keys() - new.keys())
        self.puts |= {key: value for key, value in new.items() if old.get(key) != value}

    def count(self, task: Task, change: int, status: TaskStatus | None = None) -> None:
        """Count a task in, or out."""
        self.counts[task.queue, task.type, (status or task.status).value] += change

    def ops(self) -> list[Any]:
        """All operations; the reads stand first."""
        deletes = [delete(key) for key in self.deletes if key not in self.puts]
        return [*self.reads, *deletes, *(put(key, value) for key, value in self.puts.items())]


class Writer:
    """Makes the transactions of one handle."""

    def __init__(self, client: Client, layout: Layout, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._folder = layout.folder(b"count")
        self._name = secrets.token_hex(8).encode()
        self._made = 0
        self._free: list[Slot] = []
        self._room = asyncio.Semaphore(SLOTS)
        self.transactions = 0

    async def commit(self, batch: Batch) -> Outcome:
        """Make a transaction; false when one of its conditions does not hold. It is never made twice."""
        async with self._room:
            slot = self._free.pop() if self._free else self._new_slot()
            # A slot is given back only when it is known what is in it. One that is not is left to `fold`.
            outcome = await self._commit(batch, slot)
            self._free.append(slot)
            return outcome

    async def _commit(self, batch: Batch, slot: Slot) -> Outcome:
        patience = Patience(self._client.address.timeout)
        ops = batch.ops()
        while True:
            self.transactions += 1
            number = secrets.token_hex(8)
            counts = _added(slot.counts, batch.counts)
            value = self._value(number, counts)
            compares = [*batch.compares, unmodified(slot.key, slot.revision)]
            request = Txn(
                compare=compares,
                success=nested([*ops, put(slot.key, value)], len(compares)),
                failure=[get(slot.key)],
            )
            try:
                response = await self._client.tell(TXN, request)
            except Unanswered as error:
                revision = await self._resolve(slot, number, patience, error)
                if revision is None:
                    continue
                slot.revision, slot.counts = revision, counts
                return Outcome(True, revision, None)
            except StoreFull:
                # The server has refused the change, or made it and then found that it was one too many.
                found = await self._look(slot)
                if found is None or _decode(found.value).number != number:
                    raise
                slot.revision, slot.counts = found.mod_revision, counts
                return Outcome(True, found.mod_revision, None)
            if response.succeeded:
                slot.revision, slot.counts = response.header.revision, counts
                return Outcome(True, response.header.revision, list(answers(response.responses)))
            (found,) = response.responses[0].response_range.kvs or (None,)
            if (found.mod_revision if found else 0) == slot.revision:
                return Outcome(False, response.header.revision, None)
            # The slot was taken for abandoned and added up: begin a new one.
            slot.key, slot.revision, slot.counts = self._new_slot().key, 0, Counter()

    async def _resolve(self, slot: Slot, number: str, patience: Patience, error: Unanswered) -> int | None:
        """Find out whether a transaction took place: its revision, or None after making sure that it never will."""
        while True:
            await patience.bear(error)
            mine = secrets.token_hex(8)
            request = Txn(
                compare=[unmodified(slot.key, slot.revision)],
                success=[put(slot.key, self._value(mine, slot.counts))],
                failure=[get(slot.key)],
            )
            try:
                response = await self._client.tell(TXN, request)
            except Unanswered:
                continue
            except StoreFull:
                found = await self._look(slot)
            else:
                if response.succeeded:
                    slot.revision = response.header.revision
                    return None
                (found,) = response.responses[0].response_range.kvs or (None,)
            if found is None or found.mod_revision == slot.revision:
                raise error
            if _decode(found.value).number == number:
                return int(found.mod_revision)
            # This or an earlier try to write the slot over, whose answer was lost as well.
            slot.revision = found.mod_revision
            return None

    async def _look(self, slot: Slot) -> Any:
        (answer,) = await self._client.read([get(slot.key)])
        (found,) = answer.response_range.kvs or (None,)
        return found

    async def count(self) -> list[Count]:
        """The sum of all slots."""
        (answer,) = await self._client.read([walk(self._folder, after(self._folder))])
        sums: Counter[Lane] = Counter()
        for found in answer.response_range.kvs:
            _add(sums, _decode(found.value).counts)
        return [Count(queue, type_, TaskStatus(status), n) for (queue, type_, status), n in sorted(sums.items()) if n]

    async def fold(self, now: datetime) -> None:
        """Add up the slots of handles that have not written for long."""
        (answer,) = await self._client.read([walk(self._folder, after(self._folder), 64)])
        total = self._folder + TOTAL
        old = [
            found
            for found in answer.response_range.kvs
            if found.key != total and (at := _decode(found.value).at) is not None and at <= now - ABANDONED_AFTER
        ]
        await self._fold([(found.key, found.mod_revision, found.value) for found in old])

    async def close(self) -> None:
        """Add up this handle's own slots, so that nothing of it stays behind."""
        free, self._free = self._free, []
        slots = [(slot.key, slot.revision, self._value("", slot.counts)) for slot in free if slot.revision]
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(2):
                await self._fold(slots)

    async def _fold(self, slots: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Add slots to the total, unless they were written meanwhile."""
        total = self._folder + TOTAL
        for _ in range(10 if slots else 0):
            (answer,) = await self._client.read([get(total)])
            (found,) = answer.response_range.kvs or (None,)
            sums: Counter[Lane] = Counter()
            _add(sums, _decode(found.value).counts if found else [])
            for _, _, value in slots:
                _add(sums, _decode(value).counts)
            request = Txn(
                compare=[
                    unmodified(total, found.mod_revision if found else 0),
                    *(unmodified(key, revision) for key, revision, _ in slots),
                ],
                success=[put(total, self._value("", sums)), *(delete(key) for key, *_ in slots)],
            )
            try:
                response = await self._client.tell(TXN, request)
            except Unanswered:
                return
            if response.succeeded:
                return

    def _new_slot(self) -> Slot:
        self._made += 1
        return Slot(b"%b%b-%d" % (self._folder, self._name, self._made))

    def _value(self, number: str, counts: Counter[Lane]) -> bytes:
        return msgspec.json.encode(SlotValue(number, self._clock(), [(*lane, n) for lane, n in counts.items() if n]))


_slot_decoder = msgspec.json.Decoder(SlotValue)
_decode = _slot_decoder.decode


def _add(sums: Counter[Lane], counts: Sequence[tuple[str, str, str, int]]) -> None:
    for queue, type_, status, change in counts:
        sums[queue, type_, status] += change


def _added(sums: Counter[Lane], changes: Counter[Lane]) -> Counter[Lane]:
    added = sums.copy()
    added.update(changes)
    return added
