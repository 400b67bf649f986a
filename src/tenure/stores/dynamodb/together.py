"""Writes of several tasks and their counts in one transaction, of which those drop out whose conditions fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from tenure.stores.aws import AwsUnavailable
from tenure.stores.dynamodb.counting import Counts, Tally, moved
from tenure.stores.dynamodb.items import KnownRanks
from tenure.stores.dynamodb.keys import Keys
from tenure.stores.dynamodb.lanes import Lanes
from tenure.stores.dynamodb.table import TRANSIENT, TRIES, Action, Table
from tenure.stores.dynamodb.trouble import Cancelled, Reason, refusal
from tenure.task import Task

MOST_ACTIONS = 100
"""DynamoDB's limit."""
MOST_BYTES = 3_000_000
"""Of inputs, below DynamoDB's limit of four megabytes."""
CONDITION = "ConditionalCheckFailed"

T = TypeVar("T")


class Parts(NamedTuple):
    """What every step of a store needs."""

    table: Table
    keys: Keys
    lanes: Lanes
    counts: Counts
    ranks: KnownRanks


class Entry:
    """The writes of one task, to be made together or not at all. `failed` are the reasons, when they were not."""

    __slots__ = ("actions", "after", "before", "failed", "mark")

    def __init__(self, actions: list[Action], before: Task | None, after: Task | None, mark: Any = None) -> None:
        self.actions, self.before, self.after, self.mark = actions, before, after, mark
        self.failed: list[Reason] | None = None

    @property
    def size(self) -> int:
        """Bytes of input, about."""
        return len(bytes(self.after.input_json)) if self.after is not None else 0


def groups(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries in order, as many at a time as one transaction takes together with their counts."""
    group: list[Entry] = []
    actions, size, lanes = 0, 0, set[tuple[str, str]]()
    for entry in entries:
        task = entry.after or entry.before
        lane = {(task.queue, task.type)} if task is not None else set()
        if group and (
            actions + len(entry.actions) + len(lanes | lane) > MOST_ACTIONS or size + entry.size > MOST_BYTES
        ):
            yield group
            group, actions, size, lanes = [], 0, 0, set()
        group.append(entry)
        actions, size, lanes = actions + len(entry.actions), size + entry.size, lanes | lane
    if group:
        yield group


async def write_together(parts: Parts, entries: list[Entry], *, whole: bool = False) -> None:
    """Write what can be written; the others have `failed` then. With `whole`, one that fails stops all."""
    left = list(entries)
    for attempt in range(TRIES):
        tally: Tally = Tally()
        for entry in left:
            moved(tally, entry.before, entry.after)
        with parts.counts.actions(tally) as counting:
            try:
                await parts.table.transact([*(action for entry in left for action in entry.actions), *counting])
            except Cancelled as cancelled:
                reasons = cancelled.reasons
            else:
                return
        _take_reasons(parts, left, reasons)
        failed = [entry for entry in left if entry.failed]
        if failed and whole:
            return
        left = [entry for entry in left if not entry.failed]
        if not left:
            return
        if not failed:
            await parts.table.pause(attempt + 1)
    msg = f"DynamoDB, {parts.table.address.shown}: others kept writing to the same items."
    raise AwsUnavailable(msg, may_have_taken_effect=False)


def _take_reasons(parts: Parts, entries: list[Entry], reasons: list[Reason]) -> None:
    for reason in reasons:
        if reason.code not in ("None", CONDITION, *TRANSIENT):
            raise refusal(reason.code, reason.text, parts.table.address)
    start = 0
    for entry in entries:
        own = reasons[start : start + len(entry.actions)]
        start += len(entry.actions)
        if any(reason.code == CONDITION for reason in own):
            entry.failed = own


async def all_done(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The answers of calls made at once. When one fails, the others are waited for before it is told."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    done: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        done.append(answer)
    return done
