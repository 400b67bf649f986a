"""What callers give: names, texts and numbers. What is none is refused with the name of the argument and its value."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tenure.errors import InvalidInput

NAME_LIMIT = 255
KEY_LIMIT = 1024
_SHOWN = 80


def shown(value: object) -> str:
    """The value as an error shows it, and no more of it than tells which one it is."""
    text = str(value) if isinstance(value, timedelta) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def name(field: str, value: object) -> str:
    """The name of something: an id, a type, a queue, a tag."""
    return text(field, value, NAME_LIMIT)


def text(field: str, value: object, limit: int = KEY_LIMIT) -> str:
    """A text that tells one from another, so it is not empty."""
    checked = words(field, value)
    if not checked:
        msg = f"{field} is empty. Give it at least one character."
        raise InvalidInput(msg)
    if len(checked) > limit:
        msg = f"{field} has {len(checked)} characters ({checked[:40]!r}…); at most {limit} are allowed."
        raise InvalidInput(msg)
    return checked


def words(field: str, value: object) -> str:
    """Any text that can be stored."""
    if not isinstance(value, str):
        msg = f"{field} must be a string, not {shown(value)}."
        raise InvalidInput(msg)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            msg = f"{field}={shown(value)} is not valid Unicode."
            raise InvalidInput(msg) from None
    return value


def optional(check: Any, field: str, value: Any) -> Any:
    """What passes the check, or None."""
    return None if value is None else check(field, value)


def count(field: str, value: object, most: int | None = None) -> int:
    """A whole number that is not negative, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = f"{field}={shown(value)} must be a whole number, zero or more."
        raise InvalidInput(msg)
    if most is not None and value > most:
        msg = f"{field}={shown(value)} is too many; at most {most} are allowed."
        raise InvalidInput(msg)
    return value
