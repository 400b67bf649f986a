"""Stores, and the addresses that lead to them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tenure.errors import InvalidURL, MissingExtra, one_of
from tenure.stores.base import Store
from tenure.stores.options import read_options, separated, without_password

__all__ = ["EXAMPLES", "open_store", "read_options", "separated", "sqlite_path"]

EXAMPLES = {
    "memory": "memory://",
    "sqlite": "sqlite:///jobs.db",
    "postgresql": "postgresql://user@host/database",
    "s3": "s3://bucket/prefix?region=eu-central-1",
    "dynamodb": "dynamodb://table?region=eu-central-1",
    "etcd": "etcd://host1:2379,host2:2379,host3:2379/prefix",
}
_CLASSES = {
    "postgresql": ("PostgresStore", "postgres"),
    "s3": ("S3Store", "s3"),
    "dynamodb": ("DynamoStore", "dynamodb"),
    "etcd": ("EtcdStore", "etcd"),
}
"""The stores that need an extra, which has the name of their package. They are imported when they are asked for."""

_IN_MEMORY = ":memory:"
"""SQLite's own word for a database without a file."""


def open_store(url: str | Sequence[str], clock: Callable[[], datetime] | None = None) -> Store:
    """The store behind an address, or the sharded one behind several. What is not there yet is set up."""
    urls = separated(url)
    if len(urls) == 1:
        return _open_one(urls[0], clock)
    if len(set(urls)) < len(urls) and any(not each.startswith("memory://") for each in urls):
        twice = next(each for each in urls if urls.count(each) > 1)
        msg = f"{without_password(twice)!r} stands twice among the shards. Give each store once."
        raise InvalidURL(msg)
    from tenure.stores.sharded import ShardedStore

    return ShardedStore.of([_open_one(each, clock) for each in urls], urls)


def _open_one(url: str, clock: Callable[[], datetime] | None) -> Store:
    scheme = url.partition("://")[0].lower() if isinstance(url, str) and "://" in url else ""
    if scheme == "postgres":
        scheme = "postgresql"
    if scheme not in EXAMPLES:
        shown = without_password(str(url))
        kind = one_of("kind of store", scheme or shown, list(EXAMPLES))
        msg = f"Cannot connect to {shown!r}. {kind} Example: sqlite:///jobs.db"
        raise InvalidURL(msg)
    timed: dict[str, Any] = {} if clock is None else {"clock": clock}
    if scheme == "memory":
        from tenure.stores.memory import MemoryStore

        read_options(url, known=())
        return MemoryStore(**timed)
    if scheme == "sqlite":
        from tenure.stores.sqlite import SqliteStore

        return SqliteStore(sqlite_path(url), **timed)
    name, extra = _CLASSES[scheme]
    try:
        store: Callable[..., Store] = getattr(importlib.import_module(f"tenure.stores.{extra}"), name)
    except ModuleNotFoundError:
        raise MissingExtra(f"An address with {scheme}://", extra) from None
    return store(url, **timed)


def sqlite_path(url: str) -> Path:
    """The file of an SQLite address: three slashes for a relative path, four for an absolute one.

    >>> sqlite_path("sqlite:///jobs.db"), sqlite_path("sqlite:////var/lib/jobs.db")
    (PosixPath('jobs.db'), PosixPath('/var/lib/jobs.db'))
    """
    read_options(url, known=())
    parts = urlsplit(url, allow_fragments=False)
    if parts.netloc == _IN_MEMORY:
        raise InvalidURL(_no_file_in_memory(url))
    if parts.netloc or len(parts.path) < 2:
        msg = f"{url!r} names no file. Write sqlite:///jobs.db (relative) or sqlite:////var/lib/jobs.db (absolute)."
        raise InvalidURL(msg)
    path = Path(parts.path[1:])
    if path.name == _IN_MEMORY:
        raise InvalidURL(_no_file_in_memory(url))
    if path.is_dir():
        msg = f"{url!r} is a folder. Name a file in it, like sqlite:///{path}/jobs.db."
        raise InvalidURL(msg)
    return path


def _no_file_in_memory(url: str) -> str:
    return (
        f"{url!r} names no file, and each of the store's connections would see a database of its own. "
        "For tasks that live in memory, write memory://; for a file, sqlite:///jobs.db."
    )
