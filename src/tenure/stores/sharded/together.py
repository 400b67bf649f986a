"""Asking several shards at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tenure.errors import StoreUnavailable
from tenure.stores.sharded.shard import Shard

T = TypeVar("T")
Item = TypeVar("Item")


async def all_of(shards: Sequence[Shard], call: Callable[[Shard], Awaitable[T]]) -> list[T]:
    """The answers of all of them, in order. Each is waited for; then the first error is raised."""
    answers = await asyncio.gather(*(call(shard) for shard in shards), return_exceptions=True)
    return _checked(answers)


async def those_there(shards: Sequence[Shard], call: Callable[[Shard], Awaitable[T]]) -> dict[int, T]:
    """The answers of those that can be reached, by their numbers; an error only if that is none of them."""
    asked = [shard for shard in shards if shard.health.can_be_asked] or list(shards)
    answers = await asyncio.gather(*(call(shard) for shard in asked), return_exceptions=True)
    found: dict[int, T] = {}
    away: list[T | BaseException] = []
    for shard, answer in zip(asked, answers, strict=True):
        if isinstance(answer, StoreUnavailable):
            away.append(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[shard.number] = answer
    if not found:
        _checked(away)
    return found


def grouped(items: Iterable[Item], place: Callable[[Item], int]) -> dict[int, list[Item]]:
    """The items by the numbers of their shards, each group in the order of the whole."""
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(place(item), []).append(item)
    return groups


async def by_shard(
    shards: Sequence[Shard], groups: Mapping[int, list[Item]], call: Callable[[Shard, list[Item]], Awaitable[T]]
) -> dict[int, T]:
    """Send each group to its shard, all at once."""
    numbers = list(groups)
    answers = await all_of([shards[number] for number in numbers], lambda shard: call(shard, groups[shard.number]))
    return dict(zip(numbers, answers, strict=True))


def _checked(answers: Sequence[T | BaseException]) -> list[T]:
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
