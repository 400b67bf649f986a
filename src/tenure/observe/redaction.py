"""What must not leave the house: values whose field is called like a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

SECRETS = (
    "password", "passwd", "passphrase", "secret", "token", "authorization", "api_key", "access_key", "private_key",
    "credential", "cookie", "session_id", "card_number", "cvv", "ssn",
)  # fmt: skip
REDACTED = "[redacted]"


class Redaction:
    """Replaces what stands under such a name, at any depth, and `name=value` within texts.

    >>> Redaction()({"user": "ada", "db": {"DB-Password": "x", "url": "https://a?token=y"}})
    {'user': 'ada', 'db': {'DB-Password': '[redacted]', 'url': 'https://a?token=[redacted]'}}
    """

    def __init__(self, names: Iterable[str] = SECRETS) -> None:
        words = [re.sub(r"[-_ ]+", "[-_ ]?", re.sub(r"[^\w\- ]", "", name)) for name in names]
        # With no names, nothing is a secret: an expression that never matches.
        any_name = rf"[\w-]*(?:{'|'.join(words)})[\w-]*" if words else r"(?!)"
        self._name = re.compile(any_name, re.IGNORECASE)
        self._text = re.compile(
            rf"({any_name}\\?['\"]?\s*[:=]\s*)((?:bearer|basic|token)\s+\S+|\\?'[^']*'|\\?\"[^\"]*\"|[^\s,;&)}}\]]+)",
            re.IGNORECASE,
        )

    def __call__(self, value: Any) -> Any:
        """The same value without its secrets."""
        if isinstance(value, str):
            return self._text.sub(rf"\1{REDACTED}", value)
        if isinstance(value, Mapping):
            return {name: REDACTED if self._is_secret(name) else self(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self(inner) for inner in value]
        return value

    def _is_secret(self, name: object) -> bool:
        return isinstance(name, str) and self._name.fullmatch(name) is not None
