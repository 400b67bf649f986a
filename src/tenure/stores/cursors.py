"""Cursors: where a listing or a dump goes on. They come back from outside, so they may be anything."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec

from tenure.errors import InvalidInput

TASKS, STONES, RESERVATIONS = "tasks", "stones", "reservations"
"""The kinds of records of a dump, in that order."""
FOLLOWING = {TASKS: STONES, STONES: RESERVATIONS, RESERVATIONS: None}

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number that a database can hold."""


def not_of_a_listing(cursor: str) -> InvalidInput:
    """What to say to a text that no page has come with."""
    return InvalidInput(
        f"{cursor!r} is no cursor of this listing. Use the one that came with the last page, with the same filters."
    )


def not_of_a_dump(cursor: str | None) -> InvalidInput:
    """What to say to a text that no piece has come with."""
    return InvalidInput(f"{cursor!r} is no cursor of a dump. Use the one that came with the last piece.")


def dump_cursor(kind: str, last: Any, *, more: bool) -> str | None:
    """Go on behind `last`, or with the next kind of record; None when that was all."""
    if more:
        return json.dumps([kind, last])
    following = FOLLOWING[kind]
    return following and json.dumps([following, ""])


def read_dump_cursor(cursor: str | None, first: Any) -> tuple[str, Any]:
    """The kind of record and the last one of it. Tasks begin behind `first`, whose type is that of their marks."""
    if cursor is None:
        return TASKS, first
    try:
        kind, last = json.loads(cursor)
        if kind in FOLLOWING and isinstance(last, type(first) if kind == TASKS else str):
            return kind, last
    except (ValueError, TypeError):
        pass
    raise not_of_a_dump(cursor)
