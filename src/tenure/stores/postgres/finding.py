"""Listings: what leads to the tasks that are asked for, and where a page ends."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tenure.errors import DamagedRecord
from tenure.stores.base import Page, Query
from tenure.stores.cursors import Number, not_of_a_listing
from tenure.stores.postgres.records import DAMAGED, Database, column, in_schema, key_column, load, log
from tenure.task import TaskStatus
from tenure.times import Moment, utc

_COLUMNS = (
    "id, record, version, lease_expires_at, progress, worker_id, claimed_at, policy_max, seq, ended_at"
    ", finished_by, output"
)


async def find(db: Database, schema: str, query: Query) -> Page:
    """One page of tasks."""
    by_end = query.status is not None and query.status.ended
    statement, values = _statement(query, by_end=by_end)
    rows = await db.fetch(in_schema(statement, schema), *values)
    tasks = []
    for row in rows[: query.limit]:
        try:
            tasks.append(load(row))
        except DamagedRecord as damage:
            log.warning("%s", damage)
    if len(rows) <= query.limit:
        return Page(tasks)
    last = rows[query.limit - 1]
    return Page(tasks, json.dumps([last[9].isoformat(), last[8]] if by_end else [last[8]]))


def _statement(query: Query, *, by_end: bool) -> tuple[str, list[Any]]:
    """Every part is a fixed text of this module; every value is a parameter."""
    values: list[Any] = []

    def place(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    # The status is a fixed word, written out so that the planner sees which table and which partial index it means.
    conditions = [f"status = '{query.status}'" if query.status else f"status <> '{DAMAGED}'"]
    wanted: list[tuple[str, Any]] = [
        ("type = {}", query.type and column(query.type)),
        ("queue = {}", query.queue and column(query.queue)),
        ("worker_id = {}", query.worker_id and column(query.worker_id)),
        ("ordering_key = {}", query.ordering_key and key_column(query.ordering_key)),
        ("seq IN (SELECT seq FROM tenure.tags WHERE tag = {})", query.tag and column(query.tag)),
        ("created_at < {}", query.created_before),
        ("available_at <= {}", query.available_by),
        ("available_at > {}", query.available_after),
        ("attempts >= {}", query.min_attempts or None),
    ]
    conditions += [condition.format(place(value)) for condition, value in wanted if value is not None]
    if query.cancel_requested:
        conditions.append("cancel_requested")
    rank = "ended_at, seq" if by_end else "seq"
    if query.cursor is not None:
        marks = ", ".join(place(value) for value in _read_cursor(query.cursor, by_end=by_end))
        conditions.append(f"({rank}) {'>' if query.oldest else '<'} ({marks})")
    order = rank if query.oldest else rank.replace(",", " DESC,") + " DESC"
    # Few tasks run, and few share a key: they are found first and sorted then. A planner that hopes to meet
    # them soon on a walk in submit order may walk past a million others.
    barrier = "OFFSET 0" if query.status is TaskStatus.Running or query.ordering_key is not None else ""
    found = f"SELECT * FROM tenure.everything WHERE {' AND '.join(conditions)} {barrier}"  # noqa: S608
    return f"SELECT {_COLUMNS} FROM ({found}) AS found ORDER BY {order} LIMIT {place(query.limit + 1)}", values  # noqa: S608


def _read_cursor(cursor: str, *, by_end: bool) -> list[Any]:
    try:
        if by_end:
            moment, seq = msgspec.json.decode(cursor, type=tuple[Moment, Number])
            return [utc(moment), seq]
        return list(msgspec.json.decode(cursor, type=tuple[Number]))
    except (msgspec.MsgspecError, OverflowError):
        raise not_of_a_listing(cursor) from None
