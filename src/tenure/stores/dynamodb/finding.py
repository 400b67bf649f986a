"""Listings: which part of which index leads to the tasks that are asked for, and where a page ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from tenure.errors import DamagedRecord, InvalidInput
from tenure.stores.base import Page, Query
from tenure.stores.cursors import not_of_a_listing
from tenure.stores.dynamodb.items import load, log
from tenure.stores.dynamodb.keys import ALL, TIME, is_uuid
from tenure.stores.dynamodb.table import READ_AT_ONCE
from tenure.stores.dynamodb.together import Parts
from tenure.stores.dynamodb.walking import merged
from tenure.stores.dynamodb.wire import Condition, Item, Words
from tenure.stores.matching import matches
from tenure.task import OPEN, Task, TaskStatus
from tenure.times import from_text, to_text

SMALLEST_PAGE = 25


async def find(parts: Parts, query: Query) -> Page:
    """One page of tasks. Entries lead to items, and the items decide, as they are now."""
    found: list[tuple[str, Task]] = []
    async for batch in _batches(parts, query):
        found += await _matching(parts, batch, query)
        if len(found) > query.limit:
            break
    page = found[: query.limit]
    more = len(found) > query.limit
    return Page([task for _, task in page], page[-1][0] if more else None)


async def _batches(parts: Parts, query: Query) -> AsyncIterator[list[Item]]:
    batch: list[Item] = []
    size = min(max(query.limit + 1, SMALLEST_PAGE), READ_AT_ONCE)
    async for entry in _entries(parts, query):
        batch.append(entry)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _entries(parts: Parts, query: Query) -> AsyncIterator[Item]:
    keys, status = parts.keys, query.status
    where: dict[str, Any] = {} if query.cursor is None else {_side(query): _read_cursor(query)}
    if status is TaskStatus.Running:
        # No more than workers have hands: all of them are read and sorted.
        running = [item async for item in merged(parts.table, TIME, keys.every(keys.leases))]
        entries = [{**item, "all_sk": item["time_sk"].rpartition("#")[2]} for item in running]
        for entry in sorted(entries, key=lambda entry: entry["all_sk"], reverse=not query.oldest):
            if _is_beyond(entry["all_sk"], query, where):
                yield entry
        return
    if status is not None and status.ended:
        index, pks, only = TIME, keys.every(keys.ended, status.value), None
    elif status is None:
        index, pks, only = ALL, [*keys.every(keys.listed, "open"), *keys.every(keys.listed, "ended")], _filter(query)
    else:
        index, pks, only = ALL, keys.every(keys.listed, "open"), _filter(query)
    page = None if only is not None else max(query.limit + 1, SMALLEST_PAGE)
    async for entry in merged(parts.table, index, pks, forward=query.oldest, only=only, page=page, **where):
        yield entry


def _side(query: Query) -> str:
    return "above" if query.oldest else "below"


def _is_beyond(rank: str, query: Query, where: dict[str, str]) -> bool:
    cursor = where.get(_side(query))
    return cursor is None or (rank > cursor if query.oldest else rank < cursor)


def _filter(query: Query) -> Condition | None:
    """What the index itself can tell, so that others are not sent."""
    fixed = {"job_type": query.type, "queue": query.queue, "ordering_key": query.ordering_key}
    wanted = {name: value for name, value in fixed.items() if value is not None}
    if not wanted and query.tag is None and query.created_before is None:
        return None

    def written(words: Words) -> str:
        conditions = [f"{words.name(name)} = {words.value(value)}" for name, value in wanted.items()]
        if query.tag is not None:
            conditions.append(f"contains({words.name('tags')}, {words.value(query.tag)})")
        if query.created_before is not None:
            conditions.append(f"{words.name('created_at')} < {words.value(to_text(query.created_before))}")
        return " AND ".join(conditions)

    return written


async def _matching(parts: Parts, entries: list[Item], query: Query) -> list[tuple[str, Task]]:
    places = [(entry[parts.table.pk], entry[parts.table.sk]) for entry in entries]
    items = await parts.table.get(places)
    found = []
    for place in places:
        item = items.get(place)
        if item is None or "all_sk" not in item:
            continue
        task_id = parts.keys.task_id(place[0])
        rank = parts.ranks.learn(task_id, item)
        try:
            task = load(item, task_id)
        except DamagedRecord as damage:
            log.warning("%s", damage)
            continue
        if matches(task, query):
            found.append((_cursor(task, rank, query), task))
    return found


def _by_end(query: Query) -> bool:
    return query.status is not None and query.status not in OPEN


def _cursor(task: Task, rank: str, query: Query) -> str:
    return f"{to_text(task.ended_at)}#{rank}" if _by_end(query) and task.ended_at is not None else rank


def _read_cursor(query: Query) -> str:
    cursor = query.cursor or ""
    moment, _, rank = cursor.rpartition("#")
    if is_uuid(rank) and bool(moment) == _by_end(query) and (not moment or _is_moment(moment)):
        return cursor
    raise not_of_a_listing(cursor)


def _is_moment(text: str) -> bool:
    try:
        moment: datetime = from_text(text)
    except InvalidInput:
        return False
    return to_text(moment) == text
