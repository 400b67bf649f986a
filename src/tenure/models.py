"""Values whose type pydantic knows: how they are written, and whether they are read back as the same."""

from __future__ import annotations

import dataclasses
import functools
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pydantic


class Difference(NamedTuple):
    """The first part of a value that another one has otherwise."""

    path: str
    one: Any
    other: Any


def adapter_of(value: object) -> pydantic.TypeAdapter[Any]:
    """What reads and writes values of the same class."""
    return _adapter_of_class(type(value))  # type: ignore[arg-type] # every class can be hashed


@functools.lru_cache(maxsize=1024)
def _adapter_of_class(kind: type[object]) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


def written(adapter: pydantic.TypeAdapter[Any], value: Any, *, by_alias: bool) -> Any:
    """The plain form that is meant to be read again: without what is computed anew then."""
    # What pydantic would warn of is found when the value is read back.
    return adapter.dump_python(value, mode="json", by_alias=by_alias, round_trip=True, warnings=False)


def difference(one: Any, other: Any, path: str) -> Difference | None:
    """Where two values differ in what a type declares; private attributes are nobody else's business."""
    if one is other or _equal(one, other):
        return None
    parts = _parts(one, other)
    if parts is None:
        return Difference(path, one, other)
    return next((found for part in parts if (found := difference(part[0], part[1], path + part[2]))), None)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, as far as can be told."""
    try:
        if one == other or (one != one and other != other):  # noqa: PLR0124 - so it is with NaN
            return True
        if isinstance(one, datetime) and isinstance(other, datetime):
            # In the hour that a zone repeats, no time equals one of another zone, unless both are converted.
            return one.tzinfo is not None and other.tzinfo is not None and one.astimezone(UTC) == other.astimezone(UTC)
    except Exception:
        return type(one) is type(other)
    return type(one) is type(other) and getattr(type(one), "__eq__", None) is object.__eq__


def _parts(one: Any, other: Any) -> list[tuple[Any, Any, str]] | None:
    """What to compare instead of the values themselves, and where it stands in them; None if they have no such parts."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return [(item, other[index], f"[{index}]") for index, item in enumerate(one)]
    mine, theirs = _fields(one), _fields(other)
    if mine is None or theirs is None or type(one) is not type(other) or mine.keys() != theirs.keys():
        return None
    return [(mine[name], theirs[name], f".{name}") for name in mine]


def _fields(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, dict):
        return value
    if isinstance(value, pydantic.BaseModel):
        declared = type(value).model_fields
        return {name: part for name, part in vars(value).items() if name in declared} | (value.model_extra or {})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None
