"""Addresses of PostgreSQL stores: what is Tenure's own in them, and what the driver gets."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tenure.errors import InvalidURL
from tenure.stores.options import number, read_options, switch

DEFAULT_SCHEMA = "tenure"
OWN_OPTIONS = ("schema", "poll_only", "connections", "transactions", "timeout")
DRIVER_OPTIONS = (
    "application_name", "dbname", "host", "passfile", "password", "port", "service", "sslcert", "sslcrl", "sslkey",
    "sslmode", "sslnegotiation", "sslpassword", "sslrootcert", "ssl_max_protocol_version", "ssl_min_protocol_version",
    "target_session_attrs", "user",
)  # fmt: skip

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class Address(NamedTuple):
    """A store's address, taken apart."""

    dsn: str
    schema: str = DEFAULT_SCHEMA
    poll_only: bool = False
    connections: int = 4
    transactions: int = 16
    timeout: float = 30.0

    @property
    def shown(self) -> str:
        """The server and the database, in words that may stand in any log."""
        parts = urlsplit(self.dsn)
        where = parts.netloc.rpartition("@")[2] or "the default host"
        return f"{where}{parts.path}"


def read_address(url: str) -> Address:
    """Take an address apart; a mistake in it is answered with what to write instead.

    >>> read_address("postgresql://ada@db/jobs?schema=mail&sslmode=require")[:2]
    ('postgresql://ada@db/jobs?sslmode=require', 'mail')
    """
    options = read_options(url, known=(*OWN_OPTIONS, *DRIVER_OPTIONS))
    parts = urlsplit(url, allow_fragments=False)
    rest = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name in DRIVER_OPTIONS]
    schema = options.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        msg = f"schema={schema!r} must be a name of small letters, digits and underscores, at most 48 of them."
        raise InvalidURL(msg)
    return Address(
        dsn=urlunsplit(parts._replace(scheme="postgresql", query=urlencode(rest))),
        schema=schema,
        poll_only=switch("poll_only", options.get("poll_only", "false")),
        connections=number("connections", options.get("connections", "4")),
        transactions=number("transactions", options.get("transactions", "16")),
        timeout=number("timeout", options.get("timeout", "30")),
    )
