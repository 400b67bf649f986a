"""Addresses of DynamoDB stores, taken apart."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tenure.errors import InvalidURL
from tenure.stores.options import number, read_options, seconds, switch

OPTIONS = (
    "region", "endpoint", "profile", "create", "pk", "sk", "prefix", "shards", "poll", "connections", "timeout",
)  # fmt: skip
MOST_SHARDS = 256
_TABLE = re.compile(r"[a-zA-Z0-9_.-]{3,255}")


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
    return Address(
        table=table,
        region=options.get("region"),
        endpoint=options.get("endpoint"),
        profile=options.get("profile"),
        create=switch("create", options.get("create", "false")),
        **names,
        prefix=options.get("prefix", ""),
        shards=number("shards", options["shards"], MOST_SHARDS) if "shards" in options else None,
        poll=seconds("poll", options.get("poll", "5")),
        connections=number("connections", options.get("connections", "64")),
        timeout=seconds("timeout", options.get("timeout", "10")),
    )
