"""Addresses of queues in buckets."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from tenure.errors import InvalidURL
from tenure.stores.options import number, read_options, switch

OPTIONS = ("endpoint", "region", "profile", "create", "shards")
MOST_SHARDS = 256
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class Address(NamedTuple):
    """A bucket, a prefix in it, and how to get there. `shards` is only for the first who comes."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    create: bool = False
    shards: int | None = None

    def key(self, name: str) -> str:
        """The whole key of an object of this queue."""
        return f"{self.prefix}/{name}" if self.prefix else name

    @property
    def shown(self) -> str:
        """The place in words that may stand in any log."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def read_address(url: str) -> Address:
    """Take an address apart; a mistake in it is answered with what to write instead.

    >>> read_address("s3://company-jobs/mail?region=eu-central-1")[:2]
    ('company-jobs', 'mail')
    """
    options = read_options(url, known=OPTIONS)
    parts = urlsplit(url, allow_fragments=False)
    if not _BUCKET.fullmatch(parts.netloc):
        msg = f"{url!r} names no bucket. Write s3://bucket/prefix; a bucket has 3 to 63 small letters, digits, dots and dashes."
        raise InvalidURL(msg)
    prefix = parts.path.strip("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or len(prefix) > 200):
        msg = f"The prefix {prefix!r} must be made of letters, digits, dots, dashes and underscores, at most 200 of them, with single slashes between."
        raise InvalidURL(msg)
    return Address(
        parts.netloc,
        prefix,
        options.get("endpoint"),
        options.get("region"),
        options.get("profile"),
        switch("create", options.get("create", "false")),
        number("shards", options["shards"], MOST_SHARDS) if "shards" in options else None,
    )
