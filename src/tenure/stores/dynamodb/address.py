"""Addresses of DynamoDB stores, taken apart."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tenure.errors import InvalidURL
from tenure.stores.options import read_options

OPTIONS = (
    "region", "endpoint", "profile", "create", "pk", "sk", "prefix", "shards", "poll", "connections", "timeout",
)  # fmt: skip
MOST_SHARDS = 256
_TABLE = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


class Address(NamedTuple):
    """Which table, where, and how it is used. `shards` is None when the table's own number holds."""

    table: str
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    create: bool = False
    pk: str = "pk"
    sk: str = "sk"
    prefix: str = ""
    shards: int | None = None
    poll: float = 5.0
    connections: int = 64
    timeout: float = 10.0

    @property
    def shown(self) -> str:
        """The table in words that may stand in any log."""
        return f"table {self.table}" + (f" (keys {self.prefix}*)" if self.prefix else "")


def read_address(url: str) -> Address:
    """Take an address apart; a mistake in it is answered with what to write instead.

    >>> read_address("dynamodb://jobs?region=eu-central-1&pk=PK&sk=SK")[:2]
    ('jobs', 'eu-central-1')
    """
    options = read_options(url, known=OPTIONS)
    parts = urlsplit(url, allow_fragments=False)
    table = unquote(parts.netloc)
    if not _TABLE.fullmatch(table) or parts.path not in ("", "/"):
        msg = f"{url!r} names no table. Write dynamodb://my-table?region=eu-central-1."
        raise InvalidURL(msg)
    names = {name: options[name] for name in ("pk", "sk") if name in options}
    for name, value in names.items():
        if not value:
            msg = f"{name}= is empty. Give the name of the table's key attribute."
            raise InvalidURL(msg)
    shards = _number("shards", options["shards"]) if "shards" in options else None
    if shards is not None and shards > MOST_SHARDS:
        msg = f"shards={shards} is more than {MOST_SHARDS}; each shard takes about 500 tasks a second."
        raise InvalidURL(msg)
    return Address(
        table=table,
        region=options.get("region"),
        endpoint=options.get("endpoint"),
        profile=options.get("profile"),
        create=_switch("create", options.get("create", "false")),
        **names,
        prefix=options.get("prefix", ""),
        shards=shards,
        poll=_seconds("poll", options.get("poll", "5")),
        connections=_number("connections", options.get("connections", "64")),
        timeout=_seconds("timeout", options.get("timeout", "10")),
    )


def _switch(name: str, value: str) -> bool:
    if value.lower() not in (*_TRUE, *_FALSE):
        msg = f"{name}={value!r} must be true or false."
        raise InvalidURL(msg)
    return value.lower() in _TRUE


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        msg = f"{name}={value!r} must be a whole number, at least 1."
        raise InvalidURL(msg)
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        msg = f"{name}={value!r} must be a number of seconds, more than 0."
        raise InvalidURL(msg)
    return seconds
