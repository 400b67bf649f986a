"""What must not leave the house: values whose field is called like a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any

from tenure.observe.value_in_text import end_of_value

SECRETS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "token", "authorization", "api_key", "access_key",
    "private_key", "credential", "cookie", "session_id", "card_number", "cvv", "ssn",
)  # fmt: skip
REDACTED = "[redacted]"
LONGEST = 100_000
"""A longer text is cut before it is searched."""
DEEPEST = 20
"""What lies deeper is left out."""

_NAMED = re.compile(
    # As a field: name=value, "name": value, name['x'] = value.
    r"(?<![\w-])([\w-]++)(?:\\*+['\"]?\]?\s*+[:=]++>?\s*+"
    # As one of a pair: ('name', value), {"name": "NAME", "value": value}.
    r"|\\*+['\"]\s*+,\s*+(?:\\*+['\"]?values?\\*+['\"]?\s*+[:=]\s*+)?)",
    re.IGNORECASE,
)
_LOOK_BACK = 40
"""A name may have spaces in it."""
_WHOLE_NAME = re.compile(r"b?['\"]?[\w.-]{1,100}['\"]?")
_HEADER = re.compile(r"(?:authorization|cookie)\Z", re.IGNORECASE)
_QUOTED_OR_OF_A_KNOWN_SCHEME = re.compile(r"\\|['\"(\[{]|(?:bearer|basic|token|negotiate)\s", re.IGNORECASE)
_ADDRESS = re.compile(r"(://[^\s'\"/?#@:]*+:)(?!\d++[/?#])([^\s'\"]*+)|(https?://)[^\s'\"/?#@:]++(?=@)")
_NAME_OF_PAIR, _VALUE_OF_PAIR = frozenset({"name", "key"}), frozenset({"value", "values"})


class Redaction:
    """Replaces what stands under such a name, at any depth and within texts, and passwords in addresses.

    >>> Redaction()({"user": "ada", "db": {"DB-Password": "x", "url": "https://a?token=y"}})
    {'user': 'ada', 'db': {'DB-Password': '[redacted]', 'url': 'https://a?token=[redacted]'}}

    With no names, nothing is a secret. What it has to read takes time in proportion to its length, whatever it is.
    """

    def __init__(self, names: Iterable[str] = SECRETS) -> None:
        words = [re.sub(r"[-_ ]+", "[-_ ]?", word) for name in names if (word := re.sub(r"[^\w\- ]", "", name).strip())]
        self._anything = bool(words)
        # What pydantic says of an input that it refuses ends with the input.
        self._name = re.compile("|".join([*words, "input_value"]), re.IGNORECASE)
        self._end_of_name = re.compile(rf"(?:{self._name.pattern})[\w-]*+\Z", re.IGNORECASE)

    def __call__(self, value: Any) -> Any:
        """The same value without its secrets."""
        return self._without(value, ()) if self._anything else value

    def _without(self, value: Any, around: tuple[int, ...]) -> Any:
        if value is None or isinstance(value, bool | int | float | date):
            return value
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, Mapping | list | tuple | AbstractSet):
            return self._text(_words(value))
        if len(around) == DEEPEST or id(value) in around:
            return "…"
        around = (*around, id(value))
        if isinstance(value, Mapping):
            return self._mapping(value, around)
        if isinstance(value, AbstractSet):
            return [self._without(inner, around) for inner in value]
        # Of a pair, the first may be the name.
        named = (False, *map(self._is_whole_name, value))
        return [
            REDACTED if follows else self._without(inner, around) for inner, follows in zip(value, named, strict=False)
        ]

    def _mapping(self, value: Mapping[Any, Any], around: tuple[int, ...]) -> dict[Any, Any]:
        names_one = any(
            self._is_whole_name(inner)
            for name, inner in value.items()
            if isinstance(name, str) and name.lower() in _NAME_OF_PAIR
        )
        return {
            name: REDACTED
            if self._is_secret(name) or (names_one and str(name).lower() in _VALUE_OF_PAIR)
            else self._without(inner, around)
            for name, inner in value.items()
        }

    def _is_secret(self, name: object) -> bool:
        return isinstance(name, str | bytes) and self._name.search(str(name)[:LONGEST]) is not None

    def _is_whole_name(self, value: object) -> bool:
        return (
            isinstance(value, str | bytes) and _WHOLE_NAME.fullmatch(str(value)) is not None and self._is_secret(value)
        )

    def _text(self, text: str) -> str:
        if len(text) <= LONGEST:
            return self._searched(text)
        begin = text[:LONGEST]
        # Of an address that was cut, nobody can say whether a password is in it.
        before, slashes, address = begin.rpartition("://")
        if slashes and not re.search(r"\s", address):
            begin = before
        return f"{self._searched(begin)}… [{len(text) - len(begin)} more characters]"

    def _searched(self, text: str) -> str:
        text = _ADDRESS.sub(_without_password, text)
        pieces, done = [], 0
        # A name within a value counts, too. Who nests them so that it would take long loses the rest.
        patience = 8 * len(text)
        for named in _NAMED.finditer(text):
            name = _name(text, named)
            if not self._end_of_name.search(name):
                continue
            start, end = named.end(), _end(text, name, named)
            patience -= end - start
            if patience < 0:
                end = len(text)
            if start < end and done < end:
                if start >= done:
                    pieces += [text[done:start], REDACTED]
                done = end
            if done == len(text):
                break
        return "".join([*pieces, text[done:]])


def _name(text: str, named: re.Match[str]) -> str:
    begin = named.start()
    return text[max(0, begin - _LOOK_BACK) : named.end(1)] if text[begin - 1 : begin] == " " else named[1]


def _end(text: str, name: str, named: re.Match[str]) -> int:
    """Where the value of this name ends."""
    start = named.end()
    end = end_of_value(text, start)
    if name.endswith("input_value") and not text.startswith(", input_type=", end):
        # Long inputs have a gap in the middle, so that quotes and brackets do not fit each other.
        return place if (place := text.find(", input_type=", start)) >= 0 else len(text)
    if ":" in named[0] and _HEADER.search(name) and not _QUOTED_OR_OF_A_KNOWN_SCHEME.match(text, start):
        return place if (place := text.find("\n", end)) >= 0 else len(text)
    return end


def _without_password(found: re.Match[str]) -> str:
    if found[3]:
        return f"{found[3]}{REDACTED}"
    _, at, host = found[2].rpartition("@")
    return f"{found[1]}{REDACTED}@{host}" if at else found[0]


def _words(value: object) -> str:
    """A thing that tells others about itself in its own words."""
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"
