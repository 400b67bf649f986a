"""Listings: which index leads to the tasks that are asked for, and where a page ends."""

from __future__ import annotations

import re
from datetime import datetime

from tenure.stores.base import Page, Query
from tenure.stores.cursors import not_of_a_listing
from tenure.stores.etcd.database import Database
from tenure.stores.etcd.layout import after, name, plain
from tenure.stores.etcd.records import Stored, read_claim
from tenure.stores.etcd.requests import walk
from tenure.stores.etcd.walking import Walk
from tenure.stores.matching import matches
from tenure.task import TaskStatus

LEAST, MOST = 50, 1000
_BY_SUBMIT = re.compile(r"[0-9a-f]{19}/\S+")
_BY_END = re.compile(r"[0-9:.TZ-]{27}/[0-9a-f]{19}/\S+")


async def find(db: Database, query: Query, now: datetime) -> Page:
    """One page of tasks."""
    cursor = _read_cursor(query)
    if query.status is TaskStatus.Running and not query.cancel_requested and query.ordering_key is None:
        return await _find_running(db, query, cursor)
    path = Walk(db, _folders(db, query), cursor, oldest=query.oldest, now=now)
    found: list[tuple[bytes, Stored]] = []
    while len(found) <= query.limit:
        ranks = await path.next(min(max(query.limit + 1 - len(found), LEAST), MOST))
        if not ranks:
            break
        for rank, stored in zip(ranks, await db.sound([_id(rank) for rank in ranks]), strict=True):
            if stored is not None and matches(stored.task, query):
                found.append((rank, stored))
    return _page(found, query)


async def _find_running(db: Database, query: Query, cursor: bytes | None) -> Page:
    """What runs is no more than the workers can hold: it is read through its claims."""
    folder = db.layout.folder(b"claim")
    (claims,) = await db.read([walk(folder, after(folder), keys_only=query.worker_id is None)])
    if query.worker_id is not None:
        claims = [claim for claim in claims if read_claim(claim.value).worker_id == query.worker_id]
    tasks = await db.sound([_id(claim.key) for claim in claims])
    found = sorted(
        ((stored.place + b"/" + name(stored.task.id), stored) for stored in tasks if stored is not None),
        key=lambda entry: entry[0],
        reverse=not query.oldest,
    )
    if cursor is not None:
        found = [entry for entry in found if (entry[0] > cursor if query.oldest else entry[0] < cursor)]
    return _page([entry for entry in found if matches(entry[1].task, query)][: query.limit + 1], query)


def _page(found: list[tuple[bytes, Stored]], query: Query) -> Page:
    tasks = [stored.task for _, stored in found[: query.limit]]
    return Page(tasks, found[query.limit - 1][0].decode() if len(found) > query.limit else None)


def _folders(db: Database, query: Query) -> list[bytes]:
    """The indexes to walk through, all sorted alike."""
    layout, status = db.layout, query.status
    if status is not None and status.ended:
        return [layout.folder(b"ended", status.encode())]
    if query.ordering_key is not None and status is not None:
        return [layout.line(query.ordering_key)]
    if query.cancel_requested and status is TaskStatus.Running:
        return [layout.folder(b"asked")]
    if query.tag is not None:
        return [layout.folder(b"tag", name(query.tag))]
    return [layout.folder(b"open")] + ([] if status is TaskStatus.Pending else [layout.folder(b"done")])


def _id(key: bytes) -> str:
    return plain(key.rpartition(b"/")[2])


def _read_cursor(query: Query) -> bytes | None:
    if query.cursor is None:
        return None
    by_end = query.status is not None and query.status.ended
    if not (_BY_END if by_end else _BY_SUBMIT).fullmatch(query.cursor):
        raise not_of_a_listing(query.cursor)
    return query.cursor.encode()
