"""Values and expressions as DynamoDB wants them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Item = dict[str, Any]
"""Attributes by name, as plain Python values."""


def to_wire(value: Any) -> dict[str, Any]:
    """A value with its type.

    >>> to_wire("a"), to_wire(1), to_wire(["x"])
    ({'S': 'a'}, {'N': '1'}, {'L': [{'S': 'x'}]})
    """
    if isinstance(value, str):
        return {"S": str(value)}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    return {"L": [to_wire(part) for part in value]}


def from_wire(value: Mapping[str, Any]) -> Any:
    """The value behind `to_wire`; what this library does not write is left as it is."""
    ((kind, content),) = value.items()
    if kind == "N":
        return int(content) if content.lstrip("-").isdecimal() else content
    if kind == "L":
        return [from_wire(part) for part in content]
    if kind == "B":
        return base64.b64decode(content)
    return content


def item_to_wire(item: Item) -> dict[str, Any]:
    """An item with the types of its attributes."""
    return {name: to_wire(value) for name, value in item.items()}


def item_from_wire(wire: Mapping[str, Any]) -> Item:
    """An item as plain values."""
    return {name: from_wire(value) for name, value in wire.items()}


Condition = Callable[["Words"], str]


class Words:
    """Writes expressions: every name and value stands under a short word, so that none is reserved or misread."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        """The word for an attribute."""
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: Any) -> str:
        """The word for a value."""
        word = f":v{len(self._values)}"
        self._values[word] = to_wire(value)
        return word

    def explained(self) -> dict[str, Any]:
        """What the words mean, as parts of a request."""
        parts: dict[str, Any] = {}
        if self._names:
            parts["ExpressionAttributeNames"] = {word: name for name, word in self._names.items()}
        if self._values:
            parts["ExpressionAttributeValues"] = self._values
        return parts


def equal(**attributes: Any) -> Condition:
    """The attributes have these values; None means that there is none."""

    def written(words: Words) -> str:
        return " AND ".join(
            f"attribute_not_exists({words.name(name)})"
            if value is None
            else f"{words.name(name)} = {words.value(value)}"
            for name, value in attributes.items()
        )

    return written


def absent(attribute: str) -> Condition:
    """There is no such attribute."""
    return lambda words: f"attribute_not_exists({words.name(attribute)})"


def either(*conditions: Condition) -> Condition:
    """One of the conditions holds."""
    return lambda words: "(" + " OR ".join(condition(words) for condition in conditions) + ")"


def both(*conditions: Condition | None) -> Condition:
    """All of the conditions hold."""
    return lambda words: " AND ".join(condition(words) for condition in conditions if condition is not None)


def compared(attribute: str, sign: str, value: Any) -> Condition:
    """An attribute against a value."""
    return lambda words: f"{words.name(attribute)} {sign} {words.value(value)}"


def assigned(words: Words, put: Mapping[str, Any], add: Mapping[str, int], remove: Iterable[str]) -> str:
    """The text of an update. What is put as None is removed."""
    gone = [*remove, *(name for name, value in put.items() if value is None)]
    parts = []
    if sets := [f"{words.name(name)} = {words.value(value)}" for name, value in put.items() if value is not None]:
        parts.append("SET " + ", ".join(sets))
    if gone:
        parts.append("REMOVE " + ", ".join(words.name(name) for name in gone))
    if add:
        parts.append("ADD " + ", ".join(f"{words.name(name)} {words.value(value)}" for name, value in add.items()))
    return " ".join(parts)
